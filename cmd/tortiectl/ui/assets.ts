/** Holds the page's files, which `scripts/build` makes of ui/ and Bun puts into the executable as texts. */

import style from "../../../dist/ui/page.css.txt";
import page from "../../../dist/ui/page.html.txt";
import script from "../../../dist/ui/page.js.txt";

/** Path below the token → what is there. */
export type Assets = Readonly<Record<string, { readonly type: string; readonly text: string }>>;

export const ASSETS: Assets = {
  "": { type: "text/html; charset=utf-8", text: page },
  "page.js": { type: "text/javascript; charset=utf-8", text: script },
  "page.css": { type: "text/css; charset=utf-8", text: style },
};
