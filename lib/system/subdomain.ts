/** Names of Kubernetes objects. */

const LONGEST = 253;

/** Labels of lower-case letters, digits and "-" joined by ".", none of which begins or ends with "-". */
const SUBDOMAIN = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

/** Knows the RFC 1123 subdomain, as Kubernetes names its objects; at most 253 characters. */
export function isSubdomain(text: string): boolean {
  return text.length <= LONGEST && SUBDOMAIN.test(text);
}
