/** The names Calico gives to objects of a CIDR (I§2.2): the order of keys is then the order every other store lists in. */
export function cidrKey(cidr: string): string {
  return cidr.replaceAll(".", "-").replaceAll(":", "-").replaceAll("/", "-");
}
