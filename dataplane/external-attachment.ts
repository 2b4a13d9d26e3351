/** What a dataplane outside of this program is told beyond the state of the kernel: it enforces policy and routes by itself (C§4.6). */

interface ExternalPort {
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
  readonly hostPort: number;
  readonly hostIP: string;
}

/** Who the attachment is for, under the names that others know. */
interface ExternalWorkload {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly endpoint: string;
  readonly node: string;
  readonly orchestrator: string;
  readonly pod: string;
  readonly ports: readonly ExternalPort[];
}

export interface ExternalAttachment {
  readonly workload: ExternalWorkload;
  /** As the IPAM plugin gave them, with its mask. */
  readonly addresses: readonly { readonly address: string; readonly gateway?: string | undefined }[];
  /** Destinations, as text. */
  readonly routes: readonly string[];
  readonly allowIpForwarding: boolean;
}
