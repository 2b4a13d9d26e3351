/** A dataplane for tests, which name a sandbox by its path as a runtime does: it is opened and proven for each call. */
import type {
  AppliedLink,
  AttachedLink,
  Dataplane,
  LinkOfAttachment,
  Mending,
  RecordedLink,
  Removal,
} from "../../../dataplane/dataplane.ts";
import type { DesiredState, Difference } from "../../../dataplane/desired-state.ts";
import { Sandbox } from "../../../lib/system/sandbox.ts";

export interface StateInSandbox extends DesiredState {
  readonly sandbox: string;
}

export function byPath(dataplane: Dataplane) {
  return {
    async apply({ sandbox: path, ...desired }: StateInSandbox): Promise<AppliedLink> {
      using sandbox = Sandbox.named(path);
      return await dataplane.apply(sandbox, desired);
    },
    async inspect({ sandbox: path, ...desired }: StateInSandbox, recorded?: RecordedLink): Promise<readonly Difference[]> {
      using sandbox = Sandbox.named(path);
      return await dataplane.inspect(sandbox, desired, recorded);
    },
    async drift({ sandbox: path, ...desired }: StateInSandbox, hostIndex?: number): Promise<readonly Difference[]> {
      using sandbox = Sandbox.named(path);
      return await dataplane.drift(sandbox, { desired, hostIndex });
    },
    async mend({ sandbox: path, ...desired }: StateInSandbox, hostIndex?: number): Promise<Mending> {
      using sandbox = Sandbox.named(path);
      return await dataplane.mend(sandbox, { desired, hostIndex });
    },
    remove: (link: AttachedLink | LinkOfAttachment): Promise<Removal> => dataplane.remove(link),
    list: () => dataplane.list(),
    applyNode: (state: Parameters<Dataplane["applyNode"]>[0]) => dataplane.applyNode(state),
  };
}
