/**
 * The JSON values Tortie works with: plain JavaScript, except that a number JavaScript cannot hold exactly keeps its text.
 * Block sequence numbers are near 1.8e18 (I§2.4), and a forwarded netconf must not lose a digit (design, corrections).
 */

/** A number whose text is not what JavaScript would print for it, for instance an integer beyond 2^53. */
export class RawNumber {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type JsonValue = null | boolean | number | RawNumber | string | readonly JsonValue[] | JsonObject;

/** Made without a prototype, so that a key "__proto__" is a key like any other. Keys keep the order of the text. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof RawNumber);
}
