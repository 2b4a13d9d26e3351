/** Profiles of networks (C§2.7): what an endpoint may receive and send where no policy selects it. */

export interface Profile {
  /** The network's. Its label goes to every endpoint that has the profile. */
  readonly name: string;
  /** Who may send to the profile's endpoints; empty: any sender. */
  readonly ingressSelector: string;
}

export interface Profiles {
  /**
   * Makes the profile where there is none of its name; one that is there stays as it is.
   * @returns whether it is there now: not every store keeps profiles
   * @throws DatastoreError
   */
  ensure(profile: Profile): Promise<boolean>;
}

/** For stores without profiles: without a cluster no program reads them, and in Kubernetes they follow from the pods. */
export const NO_PROFILES: Profiles = { ensure: async () => false };
