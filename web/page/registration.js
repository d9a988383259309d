// The registration of the service worker, which keeps the page's files.
import { basePath, pushKey, read } from './storage.js';

export const scope = new URL(`${basePath}/`, location.href).href;
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

// getRegistration returns the page's registration, or nothing.
export async function getRegistration() {
  await registering;
  const registration = await navigator.serviceWorker?.getRegistration(scope);
  return registration?.scope === scope ? registration : undefined;
}

// unregister removes what the worker keeps, and the worker, too, unless notifications come through it:
// they go on when a token has expired.
export async function unregister() {
  const registration = await getRegistration();
  if (!read(pushKey)) await registration?.unregister();
  await window.caches?.delete(`page ${scope}`);
}
