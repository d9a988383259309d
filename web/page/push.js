// This browser's subscription to Web Push. It belongs to the viewer who chose it, and ends when they
// sign out or somebody else signs in.
import { fetchJSON } from './data.js';
import { locale } from './i18n.js';
import { getRegistration, scope } from './registration.js';
import { forget, pushKey, store } from './storage.js';

export const canSubscribe =
  'PushManager' in window && 'Notification' in window && 'serviceWorker' in navigator;

const cacheName = `told ${scope}`;

// currentSubscription returns a promise of the browser's subscription, or of nothing.
export const currentSubscription = async () =>
  (await getRegistration())?.pushManager?.getSubscription();

const bytesOf = (base64) =>
  Uint8Array.from(atob(base64.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));

const hasKey = ({ options }, key) =>
  options?.applicationServerKey &&
  String(new Uint8Array(options.applicationServerKey)) === String(key);

// keepLocale keeps the viewer's language where the worker finds it, which makes the sentences.
export const keepLocale = async () =>
  (await caches.open(cacheName)).put(`${scope}locale`, new Response(locale));

// subscribe subscribes the browser for a user, with the key of the service. The browser asks for its
// permission. It returns {endpoint, keys}, or null if the permission is refused.
export async function subscribe(key, user) {
  const options = { userVisibleOnly: true, applicationServerKey: bytesOf(key) };
  if ((await Notification.requestPermission()) !== 'granted') return null;
  const { pushManager } = await navigator.serviceWorker.ready;
  let subscription = await pushManager.getSubscription();
  // One for another key, such as that of a service that was at this address before, would never be sent anything.
  if (subscription && !hasKey(subscription, options.applicationServerKey)) {
    await subscription.unsubscribe();
    subscription = null;
  }
  subscription ??= await pushManager.subscribe(options);
  const { endpoint, keys } = subscription.toJSON();
  store(pushKey, user);
  await keepLocale();
  return { endpoint, keys };
}

// endPush ends the browser's subscription: at the service, too, with a client of the user.
// Otherwise the service hears of it from the push service.
export async function endPush(client) {
  forget(pushKey);
  const subscription = await currentSubscription().catch(() => null);
  await window.caches?.delete(cacheName);
  if (!subscription) return;
  const body = { endpoint: subscription.endpoint };
  if (client) await fetchJSON(client, '/v1/me/push', { method: 'DELETE', body }).catch(() => {});
  await subscription.unsubscribe();
}
