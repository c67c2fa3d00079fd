/* Chinese search. Sphinx cuts the pages into words with jieba, which a browser does not have, and
   leaves a query in one piece; here it is cut along the words of the index. Names that others use are
   replaced by the book's own. `synonyms` is put in front of this file by dnnl_editions.py. */

/** A word of the index: the pages that have it. */
function pagesWith(word) {
  const { terms, titleterms } = Search._index;
  const pages = [terms, titleterms].map((all) => (Object.hasOwn(all, word) ? all[word] : []));
  return new Set(pages.flat());
}

/** Let a character be found wherever a word of the index contains it: the index has words, few characters. */
function addCharacter(character) {
  const { terms, titleterms } = Search._index;
  for (const all of [terms, titleterms]) {
    const pages = Object.keys(all).filter((word) => word.includes(character)).flatMap((word) => all[word]);
    if (pages.length) all[character] = [...new Set(pages)];
  }
}

/** Cut a run of Chinese characters into the longest words that the index has, from left to right. */
function cutChinese(run) {
  const words = [];
  for (let at = 0; at < run.length;) {
    let length = run.length - at;
    while (length > 1 && !pagesWith(run.slice(at, at + length)).size) length--;
    if (length > 1) words.push(run.slice(at, at + length));
    at += length;
  }
  return words;
}

function splitQuery(query) {
  if (/^\p{Script=Han}$/u.test(query.trim())) { // beside other words a single character says nothing
    addCharacter(query.trim());
    return [query.trim()];
  }
  const words = query.split(/[^\p{L}\p{N}_]+|(\p{Script=Han}+)/u).filter(Boolean)
    .flatMap((part) => (/\p{Script=Han}/u.test(part) ? cutChinese(part) : [part]));
  // All words must be on a page. Where no page has them all, the shortest, which say least, give way.
  const kept = [];
  let common = null;
  for (const word of [...words].sort((a, b) => b.length - a.length)) {
    if (!/\p{Script=Han}/u.test(word)) kept.push(word);
    else {
      const pages = pagesWith(word);
      const both = common === null ? pages : new Set([...common].filter((page) => pages.has(page)));
      if (!both.size) continue;
      common = both;
      kept.push(word);
    }
  }
  return kept.length ? kept : [query];
}

/** Put the book's names in place of others', the longest first, and only where a word begins and ends. */
function inTheBooksWords(query) {
  const names = Object.keys(synonyms).sort((a, b) => b.length - a.length)
    .map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const latin = "[A-Za-z0-9_]";
  const pattern = names.map((name) => {
    const before = /^\w/.test(name) ? `(?<!${latin})` : "";
    const after = /\w$/.test(name) ? `(?!${latin})` : "";
    return before + name + after;
  });
  return query.replace(new RegExp(pattern.join("|"), "gi"), (name) => ` ${synonyms[name.toLowerCase()]} `)
    .replace(/\s+/g, " ").trim();
}

const parseQuery = Search._parseQuery;
Search._parseQuery = (query) => {
  const ours = inTheBooksWords(query);
  // The page's title says most about it: above all that only speak of the thing.
  Scorer.score = ([, title, , , score]) => score + (title.includes(ours) ? 10 : 0);
  return parseQuery(ours);
};
