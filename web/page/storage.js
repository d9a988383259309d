// What the page stores in the browser. What is about the visitor is removed by Deletion in
// account.js, and the last ranking also by signing out.

// basePath is the path that the service is below, such as /steps, or empty. This module is at
// assets/HASH/page/ below it.
export const basePath = new URL('../../..', import.meta.url).pathname.slice(0, -1);

// assetOf returns the address of a file of the page.
export const assetOf = (name) => new URL(name, import.meta.url).href;

// Below a path, another app of the same origin may have keys of the same names.
const keyOf = (key) => (basePath ? `${basePath}/${key}` : key);

// goalKey has the goal of a day.
export const goalKey = 'goal';

// seenLikesKey has the viewer, a day, and how many likes of the viewer's score of it were seen.
export const seenLikesKey = 'seen-likes';

// sessionKey has the user who is signed in by a session, {user_id, nickname}, or an empty text once somebody has
// signed out. The session itself is in a cookie, which no script can read.
export const sessionKey = 'signed-in';

// providerKey has the provider by which somebody has signed in here last, {path, at}.
export const providerKey = 'provider';

// pushKey has the user whose choice this browser's notifications are.
export const pushKey = 'push';

// read returns the text that is stored under a key, or null. Some web views have no storage.
export function read(key) {
  try {
    return localStorage.getItem(keyOf(key));
  } catch {
    return null;
  }
}

// store stores a text under a key, for the next visits, if there is storage.
export function store(key, text) {
  try {
    localStorage.setItem(keyOf(key), text);
  } catch {
    // It is lost when the page is closed.
  }
}

// forget removes what is stored under a key.
export function forget(key) {
  try {
    localStorage.removeItem(keyOf(key));
  } catch {
    // Nothing is stored.
  }
}
