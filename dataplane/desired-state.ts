/**
 * Everything the kernel must hold for one attachment, as plain serialisable data.
 *
 * ADD applies it, CHECK compares the kernel with it, repair applies the differences, `explain` prints it, tests build it by hand.
 * Nothing here knows Kubernetes, Calico or CNI, and nothing outside `dataplane/` knows how it is done.
 */

/** A file below /proc/sys and the text it must hold. `path` has no leading slash: "net/ipv4/conf/cali123/proxy_arp". */
export interface Sysctl {
  readonly path: string;
  readonly value: string;
  /** A failure to set it is fatal; otherwise it is reported as a warning (C§4.3). */
  readonly required: boolean;
}

/** A route through one end of the link: table main, protocol boot, unicast, created exclusively (C§4.1). */
export interface Route {
  /** "10.0.0.5/32", "0.0.0.0/0", "::/0". */
  readonly destination: string;
  /** Next hop; absent for a route that is on link. */
  readonly gateway?: string;
  readonly scope: "link" | "universe";
}

/** A neighbour that is known without asking: no ARP request is ever made for it. */
export interface Neighbour {
  readonly address: string;
  /** Lower case with colons. */
  readonly mac: string;
}

/** The end of the link in the host's namespace. */
export interface HostEnd {
  readonly name: string;
  /** "ee:ee:ee:ee:ee:ee" (C§4.1). */
  readonly mac: string;
  /** Interface alias (IFLA_IFALIAS, at most 255 bytes): who owns the link, so that nobody needs to guess later. */
  readonly alias: string;
  /**
   * Which link of the same name may be in the way and is removed first: "any" where the name belongs to this workload alone (an older
   * sandbox of the pod has it), "unowned" where another attachment could have the same name: a link with another alias of ours stays.
   */
  readonly replaces: "any" | "unowned";
  /** Written before the link goes up, in this order. */
  readonly sysctls: readonly Sysctl[];
  /** Addresses of the end itself, set without duplicate address detection: the IPv6 next hop of the pod. Empty for IPv4 only. */
  readonly addresses: readonly string[];
  readonly routes: readonly Route[];
}

/** The end of the link inside the sandbox. */
export interface PodEnd {
  readonly name: string;
  /** A MAC somebody asked for; absent: the kernel's random one stays. */
  readonly mac?: string;
  /** Written before the link goes up. */
  readonly sysctlsBeforeUp: readonly Sysctl[];
  /** Written after the link is up and before addresses and routes. */
  readonly sysctls: readonly Sysctl[];
  /** "10.0.0.5/32", in the order of the result. */
  readonly addresses: readonly string[];
  readonly routes: readonly Route[];
  readonly neighbours: readonly Neighbour[];
}

export interface DesiredState {
  /** Path of the sandbox's network namespace. */
  readonly sandbox: string;
  readonly device: {
    readonly kind: "veth" | "netkit";
    /** 0: the kernel's default. */
    readonly mtu: number;
    /** TX and RX queues of both ends. */
    readonly queues: number;
  };
  readonly host: HostEnd;
  readonly pod: PodEnd;
  /** Settings of the host that pods need and that no attachment owns, such as forwarding; never undone. */
  readonly node: readonly Sysctl[];
}

/** What applying a state found out. */
export interface AppliedState {
  /** MAC of the pod end, lower case with colons. */
  readonly podMac: string;
  /** "veth" when the kernel has no netkit. */
  readonly kind: "veth" | "netkit";
  /** Non-fatal failures, one sentence each. */
  readonly warnings: readonly string[];
}

/** One thing in which the kernel is not as desired, in words an operator understands. */
export interface Difference {
  /** Where: "host" or "pod". */
  readonly side: "host" | "pod";
  /** The object: "link eth0", "route 10.0.0.5/32", "sysctl net/ipv4/…". */
  readonly object: string;
  readonly wanted: string;
  readonly found: string;
}

/** Link to remove at the end of an attachment. */
export interface Attachment {
  /** Empty: the sandbox is not known any more. */
  readonly sandbox: string;
  readonly podInterface: string;
  /** Removed too when it is still there and its alias is `alias`: a sandbox that is gone takes a while to be reaped. */
  readonly hostInterface: string;
  readonly alias: string;
}
