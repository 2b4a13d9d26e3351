/**
 * Picks the role from the base name this file was called by (C§0.1, I§1.1). Hard links and symlinks both work, because it is the
 * caller's argv[0] that counts and not the resolved file. A plugin's process ends as soon as its one call is served.
 */
const role = process.argv0.slice(process.argv0.lastIndexOf("/") + 1);
const argv = process.argv.slice(2);

switch (role) {
  case "tortie":
  case "calico":
  // As it stands beside the forwarder, called by hand.
  case "tortie-main":
  case "calico-main": {
    if (argv[0] === "component") {
      // How Calico's manifests call the installer (C§9.1); a runtime passes no arguments.
      const { calicoComponent } = await import("./calico-component.ts");
      process.exit(await calicoComponent(argv, process.env));
    }
    const { tortie } = await import("./tortie.ts");
    process.exit(await tortie(argv, process.env));
    break;
  }
  case "tortie-ipam":
  case "calico-ipam": {
    const { runTortieIpam } = await import("./tortie-ipam.ts");
    await runTortieIpam(argv, process.env);
    break;
  }
  case "tortiectl": {
    const { tortiectl } = await import("./tortiectl/main.ts");
    process.exit(await tortiectl(argv));
    break;
  }
  case "kubectl-tortie": {
    const { kubectlTortie } = await import("./tortiectl/kubectl.ts");
    process.exit(await kubectlTortie(argv));
    break;
  }
  case "tortie-node": {
    const { tortieNode } = await import("./tortie-node.ts");
    process.exit(await tortieNode(argv, process.env));
    break;
  }
  case "tortie-controller": {
    const { tortieController } = await import("./tortie-controller.ts");
    process.exit(await tortieController(argv, process.env));
    break;
  }
  default:
    process.stderr.write(
      `${role}: this executable answers to the names tortie, tortie-main, tortie-ipam, tortie-node, tortie-controller, tortiectl, kubectl-tortie, calico, calico-main and calico-ipam\n`,
    );
    process.exit(2);
}
