// The registration of the service worker, which keeps the page's files.
import { basePath } from './storage.js';

const scope = new URL(`${basePath}/`, location.href).href;
const address = `${scope}worker.js`;
const hasWorker = document.documentElement.hasAttribute('data-worker');
// This policy lets a script be loaded from the worker's address, whatever is asked for.
const policy = window.trustedTypes?.createPolicy('worker', { createScriptURL: () => address });

let registering;

// register registers the worker. Without it the page works as well, with a connection.
export function register() {
  if (!hasWorker || !navigator.serviceWorker) return;
  const script = policy?.createScriptURL('') ?? address;
  registering = navigator.serviceWorker.register(script).catch(() => {});
}

// unregister removes the worker, and what it keeps.
export async function unregister() {
  await registering;
  const registration = await navigator.serviceWorker?.getRegistration(scope);
  if (registration?.scope === scope) await registration.unregister();
  await window.caches?.delete(`page ${scope}`);
}
