/** The widget's model, as anywidget passes it. */
export interface Model {
  // deno-lint-ignore no-explicit-any
  get(name: string): any;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, listener: () => void): void;
  off(event: string, listener: () => void): void;
}

/** What a widget's `render` receives. */
export interface View {
  model: Model;
  el: HTMLElement;
}

export type Language = "en" | "zh";

/** The texts of an explorer: both languages in a notebook, its own on a page of the book. */
export type Texts<Text> = Partial<Record<Language, Text>>;

/** Removes the listeners that a function has added. */
export type Stop = () => void;
