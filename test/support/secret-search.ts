/** Looks for secrets in files, in every form that somebody could read them back from. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Letters in a row that tell a secret: no part of it may be there either. */
const PIECE = 20;

/** A secret's name, and its value. */
export type NamedSecrets = Readonly<Record<string, string>>;

/** @returns "which secret in which file, how" for each that is found below the folder */
export function secretsIn(folder: string, secrets: NamedSecrets): readonly string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  return files.flatMap(({ parentPath, name }) => {
    const text = readFileSync(join(parentPath, name), "latin1");
    const views = { "as it is": text, "without line ends": text.replace(/\\[nrt]|\s+/g, "") };
    return Object.entries(secrets).flatMap(([which, secret]) =>
      Object.entries(formsOf(secret)).flatMap(([form, pieces]) =>
        Object.entries(views).flatMap(([view, shown]) =>
          pieces.some((piece) => shown.includes(piece)) ? [`${which} in ${name}, ${form}, ${view}`] : [],
        ),
      ),
    );
  });
}

/** The letters of a PEM text's key, or the value itself. */
function lettersOf(secret: string): string {
  return secret.replace(/-----[^-]+-----/g, "").replace(/\s+/g, "");
}

function formsOf(secret: string): Readonly<Record<string, readonly string[]>> {
  const bytes = Buffer.from(secret.trim());
  const letters = lettersOf(secret);
  const padded = [0, 1, 2].map((before) =>
    Buffer.concat([Buffer.alloc(before), bytes])
      .toString("base64")
      .replace(/=+$/, "")
      .slice(before === 0 ? 0 : before + 1, -1),
  );
  const whole = secret.includes("-----BEGIN") ? [letters] : [letters, encodeURIComponent(letters)];
  return {
    plain: whole.flatMap(pieces),
    base64: padded.flatMap((form) => pieces(form)),
    hexadecimal: [bytes.toString("hex"), bytes.toString("hex").toUpperCase()].flatMap(pieces),
  };
}

/** From the middle of long ones: keys of one kind begin alike. */
function pieces(text: string): readonly string[] {
  if (text.length <= 2 * PIECE) return text.length < 8 ? [] : [text];
  const from = Math.min(60, text.length - 2 * PIECE);
  return Array.from({ length: Math.floor((text.length - from) / PIECE) }, (_, index) =>
    text.slice(from + index * PIECE, from + (index + 1) * PIECE),
  );
}
