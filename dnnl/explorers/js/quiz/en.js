export default {
  name: "Quiz",
  right: "Right.",
  wrong: "Not so.",
  see: "The experiment: ",
  hint: "Choose an answer. Every choice has its explanation, and you may choose again.",
};
