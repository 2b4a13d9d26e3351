/** Starts the program of the client archives: kubectl's plugin alone, for machines that are no nodes, Linux or macOS. */
import { kubectlTortie } from "./tortiectl/kubectl.ts";

process.exit(await kubectlTortie(process.argv.slice(2)));
