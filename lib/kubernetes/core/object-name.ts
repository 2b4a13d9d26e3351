/** Names of Kubernetes objects, judged here before they become part of a path: "..", "a/b" or "A" are nobody's name. */

/** RFC 1123 subdomain (apimachinery, IsDNS1123Subdomain), which the names of pods, nodes, namespaces and custom resources are. */
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LONGEST_NAME = 253;

/** Whether an object may have this name; a server answers 404 or 422 to every other. */
export function isObjectName(name: string): boolean {
  return name.length <= LONGEST_NAME && SUBDOMAIN.test(name);
}
