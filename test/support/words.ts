/** Returns the words of a text, for lists that would take a line for each: words`one two`. */
export function words({ raw: [text = ""] }: TemplateStringsArray): string[] {
  return text.trim().split(/\s+/);
}

/** Returns the phrases of a text, which commas separate: phrases`GET pod, PUT block`. */
export function phrases({ raw: [text = ""] }: TemplateStringsArray): string[] {
  return text.trim().split(/,\s*/);
}
