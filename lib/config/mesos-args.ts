/** `args`: the labels that Mesos passes to a plain container (C§2.6). Everything else in it is some other plugin's business. */
import { type Decoded, list, record, text } from "./codec.ts";
import type { MesosLabel } from "./network-config.ts";

const label = record({ key: text, value: text });
const labels = record({ labels: list(label, "a list of objects", { key: undefined, value: undefined }) });

export const argsSchema = record({ "org.apache.mesos": record({ network_info: record({ name: text, labels }) }) });

/** The labels in their order, raw. */
export function mesosLabels(given: Decoded<typeof argsSchema> | undefined): readonly MesosLabel[] {
  const found = given?.["org.apache.mesos"]?.network_info?.labels?.labels ?? [];
  return found.map(({ key, value }) => ({ key: key ?? "", value: value ?? "" }));
}
