// Who is signed in: by a session or by a token from the address or a form, and the people of the demo.
import { clientOf, fetchJSON, pollInterval, wait } from './data.js';
import { read, sessionKey } from './storage.js';
import { useCallback, useEffect, useRef, useState } from './view.js';

export const isDemo = document.documentElement.hasAttribute('data-demo');

// decode returns a part of an address, as it is if it can't be decoded.
export function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const handOver = '#token=';

// screenAt returns the hash of an address of this page, or nothing if it is another one's.
function screenAt(address) {
  try {
    const { origin, pathname, hash } = new URL(address, location.href);
    const isHere = origin === location.origin && pathname === location.pathname;
    return isHere && !hash.startsWith(handOver) ? hash : '';
  } catch {
    return '';
  }
}

// takeToken returns the token that an app has put into the address for its web view, or a login
// on its way back, as #token=… and perhaps &return_to=…, or null. It removes both from the address
// and from the tab's history, and shows the screen of return_to or of the previous hash. Browsers
// never send a hash.
function takeToken(previousHash) {
  if (!location.hash.startsWith(handOver)) return null;
  const given = new URLSearchParams(location.hash.slice(1));
  const screen = screenAt(given.get('return_to') ?? '') || previousHash || '#/';
  history.replaceState(history.state, '', screen);
  return given.get('token');
}

export const openedToken = takeToken('');

// This listener is added before all others, which thus never see a token.
let handedOver = () => {};
addEventListener('hashchange', (event) => {
  const token = takeToken(new URL(event.oldURL).hash);
  if (token) handedOver(token);
});

// onHandedOverToken sets what is called with a token that an app hands over while the
// page is open.
export function onHandedOverToken(callback) {
  handedOver = callback;
}

// keptSession returns the user who is signed in by a session in this browser, as far as the page knows, or null.
export function keptSession() {
  try {
    const user = JSON.parse(read(sessionKey));
    return user?.user_id ? { avatar_url: '', ...user } : null;
  } catch {
    return null; // it is not the page's
  }
}

// userOf returns the user of a token. It does not verify the token: only the
// service can.
export function userOf(token) {
  const user = { user_id: '', nickname: '', avatar_url: '' };
  try {
    const base64 = token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/');
    return { ...user, user_id: String(JSON.parse(atob(base64)).sub ?? '') };
  } catch {
    return user;
  }
}

// useDemoPeople returns {people, error, load, update}: the people whom a visitor of the demo may
// be, each with a client, and why they are not here yet. load gets them anew, however long that
// takes; update(profile) replaces the profile of one of them.
export function useDemoPeople() {
  const [people, setPeople] = useState(null);
  const [error, setError] = useState(null);
  const loading = useRef(false);
  const load = useCallback(async () => {
    if (loading.current) return;
    loading.current = true;
    while (loading.current) {
      try {
        const { people: found } = await fetchJSON(null, '/demo/people');
        setPeople(found.map(({ token, ...person }) => ({ ...person, client: clientOf(token) })));
        loading.current = false;
      } catch (failure) {
        setError(failure);
        await wait(pollInterval);
      }
    }
    setError(null);
  }, []);
  useEffect(() => {
    if (isDemo) load();
  }, []);
  const update = (profile) => {
    const isSame = (person) => person.user_id === profile.user_id;
    setPeople((were) => were.map((was) => (isSame(was) ? { ...was, ...profile } : was)));
  };
  return { people, error, load, update };
}
