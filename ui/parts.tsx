/** Has what several views are made of. Texts of others come in by `Name` and `Fault` only, as text nodes. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { answered, faultOf } from "./answers.ts";
import type { Answer, Fault as FaultOf } from "./contract.ts";
import { counted, plain } from "./format.ts";

/** Shows a text of others, set apart from the direction of the line. */
export function Name({ of, mono = false }: { readonly of: string; readonly mono?: boolean }) {
  return <bdi class={mono ? "mono" : undefined}>{plain(of)}</bdi>;
}

/** Says which command gives the same, and copies it. */
export function CommandLine({ of }: { readonly of: Answer<unknown> | undefined }) {
  const [isCopied, setCopied] = useState(false);
  if (of === undefined || of.command === "") return null;
  const copy = async () => {
    await navigator.clipboard.writeText(of.command);
    setCopied(true);
  };
  return (
    <p class="command">
      <code>{plain(of.command)}</code>
      <button type="button" class="quiet" onClick={() => void copy().catch(() => setCopied(false))} onBlur={() => setCopied(false)}>
        {isCopied ? "Copied" : "Copy"}
        <span class="hidden"> the command</span>
      </button>
    </p>
  );
}

/** Says what went wrong, and what to do next. */
export function Trouble({ fault, title }: { readonly fault: FaultOf; readonly title?: string }) {
  return (
    <div class="trouble" role="alert">
      <p>
        <strong>{title ?? "This cannot be shown"}</strong>
      </p>
      <p>
        <Name of={fault.message} />
      </p>
      {fault.next !== null && (
        <p>
          <span class="tag">next</span> <Name of={fault.next} />
        </p>
      )}
      {fault.word !== null && <p class="muted mono">{plain(fault.word)}</p>}
    </div>
  );
}

/** Shows an answer, or why there is none. */
export function Shown<T>({
  answer,
  isAsking = answer === undefined,
  children,
}: {
  readonly answer: Answer<T> | undefined;
  readonly isAsking?: boolean;
  readonly children: (found: T) => ComponentChildren;
}) {
  const fault = faultOf(answer);
  const found = answered(answer);
  return (
    <div aria-busy={isAsking}>
      {answer === undefined && isAsking && <p class="muted pending">Asking…</p>}
      {fault !== undefined && <Trouble fault={fault} />}
      {found !== undefined && children(found)}
      <CommandLine of={answer} />
    </div>
  );
}

/** Lists facts by name; those without a value are left out. */
export function Facts({ of }: { readonly of: readonly (readonly [string, ComponentChildren | undefined])[] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) =>
        value === undefined || value === "" ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{typeof value === "string" ? <Name of={value} /> : value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}

export type Tone = "ok" | "warning" | "failed" | "skipped";
const MARKS: Readonly<Record<Tone, readonly [string, string]>> = {
  ok: ["✓", "well"],
  warning: ["!", "warning"],
  failed: ["✗", "failed"],
  skipped: ["–", "not looked at"],
};

/** Has a sign with its meaning as text for those who do not see it. */
export function Mark({ tone, label }: { readonly tone: Tone; readonly label?: string }) {
  const [sign, meaning] = MARKS[tone];
  return (
    <span class={`mark ${tone}`}>
      <span aria-hidden="true">{sign}</span>
      <span class="hidden">{label ?? meaning}</span>
    </span>
  );
}

/** Says that there is nothing, and when there will be something. */
export function Empty({ children }: { readonly children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** Asks which rows are wanted. */
export function Find({ what, hint, filter, setFilter }: FindProps) {
  return (
    <label class="grow">
      <span class="hidden">Find {what}</span>
      <input type="search" placeholder={hint} value={filter} onInput={({ currentTarget }) => setFilter(currentTarget.value)} />
    </label>
  );
}

interface FindProps {
  readonly what: string;
  readonly hint: string;
  readonly filter: string;
  setFilter(filter: string): void;
}

/** Is a form with that question alone. */
export function FindForm(props: FindProps) {
  return (
    <form class="toolbar" onSubmit={(event) => event.preventDefault()}>
      <Find {...props} />
    </form>
  );
}

/** Heads the columns of a table. */
export function Columns({ of }: { readonly of: readonly string[] }) {
  return (
    <thead>
      <tr>
        {of.map((name) => (
          <th key={name} scope="col">
            {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}

/** Offers the rows of a table that are not shown yet. */
export function More({ of, what, most, step, setMost }: MoreProps) {
  if (of.length <= most) return null;
  return (
    <button type="button" onClick={() => setMost(most + step)}>
      Show more of {counted(of.length, what)}
    </button>
  );
}

interface MoreProps {
  readonly of: readonly unknown[];
  readonly what: string;
  readonly most: number;
  readonly step: number;
  setMost(most: number): void;
}
