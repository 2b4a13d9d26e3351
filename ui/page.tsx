/** Begins the page: its frame, the views and the way between them. What is looked at stands behind "#" in the address. */
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { answered, faultOf } from "./answers.ts";
import { type LiveState, useLive } from "./ask.ts";
import { Name, Trouble } from "./parts.tsx";
import { AddressesView } from "./views/addresses.tsx";
import { BurstsView } from "./views/bursts.tsx";
import { DoctorView } from "./views/doctor.tsx";
import { EndpointsView } from "./views/endpoints.tsx";
import { PodsView } from "./views/pods.tsx";
import { PolicyView } from "./views/policy.tsx";
import { RoutesView } from "./views/routes.tsx";

const VIEWS = {
  addresses: "Addresses",
  endpoints: "Endpoints",
  bursts: "Bursts",
  routes: "Routes",
  policy: "Policy",
  doctor: "Doctor",
} as const;
type View = keyof typeof VIEWS;
/** Lists the views of a cluster: all others are about one node. */
const OF_CLUSTER: readonly View[] = ["addresses", "endpoints", "doctor"];
const NAMES = Object.keys(VIEWS).filter((name): name is View => Object.hasOwn(VIEWS, name));

interface Place {
  readonly view: View;
  /** Is what of the view is chosen. */
  readonly chosen: string | undefined;
}

/** Reads "#/endpoints/12". */
function placeOf(hash: string): Place {
  const [, name = "", rest] = /^#\/([a-z]+)(?:\/(.+))?$/.exec(hash) ?? [];
  const view = NAMES.find((one) => one === name) ?? "addresses";
  return { view, chosen: rest === undefined ? undefined : decoded(rest) };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function usePlace(): Place {
  const [place, setPlace] = useState(() => placeOf(location.hash));
  useEffect(() => {
    const change = () => setPlace(placeOf(location.hash));
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return place;
}

function Page() {
  const live = useLive();
  const { view: asked, chosen } = usePlace();
  const isCluster = live.about?.scope === "cluster";
  // A link may come from the page of a node.
  const view = isCluster && !OF_CLUSTER.includes(asked) ? "addresses" : asked;
  const heading = useRef<HTMLHeadingElement>(null);
  const isFirst = useRef(true);
  // Moves the focus with the view.
  useEffect(() => {
    document.title = `${VIEWS[view]} – Tortie`;
    if (!isFirst.current) heading.current?.focus();
    isFirst.current = false;
  }, [view]);
  const choose = (next: string | undefined) => {
    location.hash = next === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(next)}`;
  };
  return (
    <>
      <a class="skip" href={`#/${view}`} onClick={() => heading.current?.focus()}>
        Skip to the content
      </a>
      <Head live={live} view={view} />
      <main>
        <h1 ref={heading} tabIndex={-1}>
          {VIEWS[view]}
        </h1>
        <Lost live={live} />
        {view === "addresses" && <AddressesView {...{ live, chosen, choose }} />}
        {view === "endpoints" && isCluster && <PodsView live={live} />}
        {view === "endpoints" && !isCluster && <EndpointsView {...{ live, chosen, choose }} />}
        {view === "bursts" && <BurstsView live={live} />}
        {view === "routes" && <RoutesView live={live} />}
        {view === "policy" && <PolicyView live={live} />}
        {view === "doctor" && <DoctorView />}
      </main>
    </>
  );
}

function Head({ live, view }: { readonly live: LiveState; readonly view: View }) {
  const { about } = live;
  return (
    <header class="head">
      <span class="brand">
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <path class="orange" d="M1 1h6v6H1z" />
          <path class="black" d="M9 1h6v6H9zM1 9h6v6H1z" />
          <path class="cream" d="M9 9h6v6H9z" />
        </svg>
        Tortie
      </span>
      <nav aria-label="Views">
        {NAMES.filter((name) => about?.scope !== "cluster" || OF_CLUSTER.includes(name)).map((name) => (
          <a key={name} href={`#/${name}`} aria-current={name === view ? "page" : undefined}>
            {VIEWS[name]}
          </a>
        ))}
      </nav>
      <span class="where">
        {about !== undefined && <Name of={about.host} />} <State live={live} />
      </span>
    </header>
  );
}

/** Says in two words how things are; the views say more. */
function State({ live }: { readonly live: LiveState }) {
  const [tone, text] = stateOf(live);
  return (
    <span class={`state ${tone}`} role="status">
      {text}
    </span>
  );
}

function stateOf({ link, status, about, pools }: LiveState): readonly ["ok" | "warning" | "failed" | "skipped", string] {
  if (link === "lost") return ["failed", "connection lost"];
  if (about?.scope === "cluster") return faultOf(pools) === undefined ? ["ok", "cluster"] : ["failed", "cluster away"];
  if (status === undefined) return ["skipped", "connecting"];
  const health = answered(status);
  if (health === undefined) return ["failed", "agent away"];
  if (!health.ready) return ["warning", `agent ${health.phase}`];
  return [health.state === "ok" ? "ok" : health.state === "warning" ? "warning" : "failed", `agent ${health.state}`];
}

/** Says above every view what keeps it from being true. */
function Lost({ live: { link, status } }: { readonly live: LiveState }) {
  if (link === "lost") {
    const message = "What is shown is old: tortiectl ui does not answer. The page goes on by itself when it does";
    return (
      <Trouble
        title="Connection lost"
        fault={{ word: null, message, next: "start tortiectl ui again, and open the address that it prints" }}
      />
    );
  }
  const fault = faultOf(status);
  const health = answered(status);
  if (fault !== undefined) return <Trouble title="No agent answers" fault={fault} />;
  const troubles = health?.checks.filter(({ state }) => state === "failure" || state === "warning") ?? [];
  if (troubles.length === 0) return null;
  return (
    <ul class="notices">
      {troubles.map(({ name, state, message, next }) => (
        <li key={name} class={state}>
          <strong>{name}</strong> <Name of={message} /> {next !== undefined && <Name of={`Next: ${next}`} />}
        </li>
      ))}
    </ul>
  );
}

render(<Page />, document.body);
