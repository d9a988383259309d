// The page: session, navigation, and everything around a screen.
import { clientOf, fetchJSON, onRefused, sessionClient, tryAgain, useFetch } from './data.js';
import {
  Avatar,
  ErrorBoundary,
  ErrorNotice,
  Icon,
  LanguageButton,
  lazy,
  Name,
  nameOf,
  setTitle,
  Skeleton,
  useLater,
} from './components.js';
import { locale, setLocale, stripBidi, t } from './i18n.js';
import {
  decode,
  isDemo,
  keptSession,
  onHandedOverToken,
  openedToken,
  useDemoPeople,
  userOf,
} from './session.js';
import { forgetKept, keptForDemo, KeptRanking } from './offline.js';
import { assetOf, forget, providerKey, pushKey, read, sessionKey, store } from './storage.js';
import { Today } from './today.js';
import { html, render, useCallback, useEffect, useRef, useState } from './view.js';

const toastTime = 4500;

const importSignIn = () => import('./sign-in.js');
const SignIn = lazy(() => importSignIn().then((module) => module.SignIn));
const Offer = lazy(() => importSignIn().then((module) => module.Offer));

// Screens by the first part of the address. The rest is their prop path.
const screens = {
  '': Today,
  at: Today,
  day: lazy(() => import('./spans.js').then(({ PastDay }) => PastDay)),
  week: lazy(() => import('./spans.js').then(({ Week }) => Week)),
  month: lazy(() => import('./spans.js').then(({ Month }) => Month)),
  history: lazy(() => import('./history.js').then(({ History }) => History)),
  boards: lazy(() => import('./boards.js').then(({ Boards }) => Boards)),
  groups: lazy(() => import('./groups.js').then(({ Groups }) => Groups)),
  join: lazy(() => import('./invitations.js').then(({ Join }) => Join)),
  invite: lazy(() => import('./invitations.js').then(({ Befriend }) => Befriend)),
  friends: lazy(() => import('./friends.js').then(({ Friends }) => Friends)),
  me: lazy(() => import('./profile.js').then(({ Profile }) => Profile)),
  webhooks: lazy(() => import('./webhooks.js').then(({ Webhooks }) => Webhooks)),
};

// The tabs, and the first parts of the addresses that belong to each.
const tabs = [
  { name: 'today', href: '#/', routes: ['', 'at', 'day', 'week', 'month'] },
  { name: 'history', href: '#/history', routes: ['history'] },
  { name: 'boards', href: '#/boards', routes: ['boards'] },
  { name: 'groups', href: '#/groups', routes: ['groups', 'join'] },
  { name: 'friends', href: '#/friends', routes: ['friends', 'invite'] },
];

// titleOf returns the key of a route's title: its tab's name, if it has one. An unknown
// route shows today.
function titleOf(route) {
  if (route === 'me' || route === 'webhooks') return 'profile';
  return (tabs.find((tab) => tab.routes.includes(route)) ?? tabs[0]).name;
}

// useRoute returns [route, path]: the first part of the address's hash, and the
// parts after it.
function useRoute() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const change = () => setHash(location.hash);
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  const [route = '', ...path] = hash.replace(/^#\/?/, '').split('/');
  return [route, path.map(decode)];
}

// useToast returns [toast, notify, announce]. notify(text) shows a message and
// has it read by screen readers; announce(text) only has it read.
function useToast() {
  const [message, setMessage] = useState(null);
  const [announcement, announce] = useState('');
  const timer = useRef(0);
  const notify = useCallback((text) => {
    clearTimeout(timer.current);
    setMessage({ text, id: Date.now() });
    timer.current = setTimeout(() => setMessage(null), toastTime);
  }, []);
  return [html`<${Toast} message=${message} announcement=${announcement} />`, notify, announce];
}

// Positions of the screens in the tab's history, by the id in their entry's state.
const positions = new Map();
let currentId = '';
let removeObserver = () => {};

// scrollWhenLoaded scrolls to a position once the screen is long enough, unless the
// visitor does something first.
function scrollWhenLoaded(y) {
  const controller = new AbortController();
  const { signal } = controller;
  const observer = new ResizeObserver(() => {
    if (document.documentElement.scrollHeight < y + innerHeight) return;
    scrollTo(0, y);
    removeObserver();
  });
  removeObserver = () => {
    observer.disconnect();
    controller.abort();
  };
  for (const event of ['wheel', 'touchstart', 'keydown', 'pointerdown']) {
    addEventListener(event, removeObserver, { signal, passive: true });
  }
  observer.observe(document.body);
}

// followHistory gives each entry of the tab's history an id, and remembers how far
// its screen was scrolled. It runs before the new screen is drawn.
function followHistory() {
  positions.set(currentId, scrollY);
  removeObserver();
  currentId = history.state?.id;
  if (currentId === undefined) {
    currentId = crypto.getRandomValues(new Uint32Array(2)).join('-');
    history.replaceState({ id: currentId }, '');
  }
}
history.scrollRestoration = 'manual';
followHistory();
addEventListener('hashchange', followHistory);

// useFocusOnNavigation moves the focus to the heading of a screen when the
// address changes, but not when the page is opened. A screen that was left is
// scrolled to where it was.
function useFocusOnNavigation(hash) {
  const opened = useRef(false);
  useEffect(() => {
    if (opened.current) {
      scrollTo(0, 0);
      if (positions.get(currentId) > 0) scrollWhenLoaded(positions.get(currentId));
      const heading = document.querySelector('main h1') ?? document.getElementById('main');
      heading?.focus({ preventScroll: true });
    }
    opened.current = true;
  }, [hash]);
}

// UserSwitch chooses who the visitor of the demo is.
function UserSwitch({ people, user, onSwitch }) {
  const change = (event) =>
    onSwitch(people.find((person) => person.user_id === event.target.value));
  const option = (person) => html`<option
    key=${person.user_id}
    value=${person.user_id}
    selected=${person.user_id === user.user_id}
  >
    ${stripBidi(nameOf(person))}
  </option>`;
  return html`<label class="switch">
    <span class="label">${t('youAre')}</span>
    <select value=${user.user_id} onChange=${change}>
      ${people.map(option)}
    </select>
    <${Icon} name="chevron" />
  </label>`;
}

// AccountMenu opens from the viewer's picture. It closes with the next click elsewhere, with
// Escape, and when another screen opens.
function AccountMenu({ people, user, onSwitch, onLocale }) {
  const menu = useRef(null);
  useEffect(() => {
    const close = ({ type, target, key }) => {
      if (!menu.current) return; // the visitor has just signed out
      const inside = type !== 'hashchange' && menu.current.contains(target);
      if (type === 'keydown' ? key !== 'Escape' : inside) return;
      if (menu.current.open && inside) menu.current.firstElementChild.focus();
      menu.current.open = false;
    };
    const events = ['click', 'keydown', 'hashchange'];
    events.forEach((name) => addEventListener(name, close));
    return () => events.forEach((name) => removeEventListener(name, close));
  }, []);
  return html`<details class="account" ref=${menu}>
    <summary>
      <span class="visually-hidden">${`${t('profile')}: ${stripBidi(nameOf(user))}`}</span>
      <${Avatar} user=${user} size="small" />
    </summary>
    <div class="account-menu card">
      <a class="self" href="#/me"><${Name} user=${user} /><span class="label">${t('profile')}</span></a>
      ${people && html`<${UserSwitch} people=${people} user=${user} onSwitch=${onSwitch} />`}
      <${LanguageButton} onChange=${onLocale} />
    </div>
  </details>`;
}

const importPush = () => import('./push.js');
const importBadges = () => import('./badges.js');

// Tabs is the navigation. With large letters it is behind a button, which other sizes hide. It closes
// with Escape, and when another screen opens.
function Tabs({ title, badges, Badge }) {
  const [open, setOpen] = useState(false);
  const button = useRef(null);
  const close = ({ key }) => {
    if (!open || key !== 'Escape') return;
    setOpen(false);
    button.current.focus();
  };
  const badge = ({ name }) =>
    badges[name] > 0 && html`<${Badge} key=${name} tab=${name} n=${badges[name]} />`;
  const link = ({ name, href }) => html`<a
    key=${name}
    href=${href}
    aria-current=${name === title ? 'page' : undefined}
    onClick=${() => setOpen(false)}
  >
    <${Icon} name=${name} /><span>${t(name)}</span>
    ${badge({ name })}
  </a>`;
  return html`<nav class=${open ? 'tabs open' : 'tabs'} aria-label=${t('main')} onKeyDown=${close}>
    <button class="menu-button" ref=${button} aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>
      ${t('menu')} ${!open && tabs.map(badge)}
    </button>
    ${tabs.map(link)}
  </nav>`;
}

function Layout({ session, title, onSwitch, onLocale, children }) {
  const { people, user } = session;
  const later = useLater(importBadges, session.today);
  const [badges, onBadges] = useState({});
  const skip = (event) => {
    event.preventDefault();
    document.getElementById('main').focus();
  };
  return html`<a class="skip" href="#main" onClick=${skip}>${t('skip')}</a>
    <header class="top">
      <a class="brand" href="#/" aria-label="Stepboard">
        <img src=${assetOf('icon.svg')} alt="" width="28" height="28" /><span>Stepboard</span>
      </a>
      <${Tabs} ...${{ title, badges }} Badge=${later?.Badge} />
      <${AccountMenu} ...${{ people, user, onSwitch, onLocale }} />
    </header>
    ${
      later &&
      html`<${later.Badges}
        key=${`${session.client.key} ${title}`}
        ...${{ session, onBadges }}
        tab=${title}
      />`
    }
    <main id="main" tabindex="-1">${children}</main>`;
}

// Toast shows a message for a short time. Screen readers also read announcement,
// which is not shown.
function Toast({ message, announcement }) {
  return html`<div class="message" role="status" aria-live="polite">
      ${message && html`<p key=${message.id}>${message.text}</p>`}
    </div>
    <div class="visually-hidden" role="status" aria-live="polite">${announcement}</div>`;
}

function Loading({ error, retry }) {
  const content = error
    ? html`<section class="card"><${ErrorNotice} error=${error} retry=${retry} /></section>`
    : html`<section class="card list"><${Skeleton} /></section>`;
  return html`<main id="main" class="alone">${content}</main>`;
}

// loginOf returns who is signed in by a token; sessionOf, by a session of this device.
const loginOf = (token) => ({ client: clientOf(token), user: userOf(token) });
const sessionOf = (user) =>
  user && { client: sessionClient('', user.user_id), user, bySession: true };

// firstLogin returns who is signed in when the page is opened. A token that an app hands over never falls back to a
// session, which may be another person's, and does not replace one without a question.
const firstLogin = () => sessionOf(keptSession()) ?? (openedToken && loginOf(openedToken));

// Fields that somebody has typed into are marked for renewal.js.
addEventListener('input', ({ target }) => {
  target.isTyped = true;
});

// useSession returns {login, demo, refused, renewal, offer, signIn, signInBySession, signOut, onSwitch, onProfile}.
// renewal is the question before a session is renewed, while there is one. offer is
// {user, accept, stay} while an app hands over a token and somebody else is signed in by a session. login
// is {client, user}, or nothing if nobody is signed in; refused reports that the last
// token was refused. Call onProfile with a profile that was stored.
function useSession() {
  const demo = useDemoPeople();
  const [signedIn, setSignedIn] = useState(firstLogin);
  const [offered, setOffered] = useState(() => (keptSession() ? openedToken : null));
  const [chosenId, setChosenId] = useState('');
  const [refused, setRefused] = useState(false);
  const [renewal, setRenewal] = useState(null);
  const { people, load, update } = demo;
  const person = people?.find(({ user_id: id }) => id === chosenId) ?? people?.[0];
  const current = isDemo ? person && { client: person.client, user: person } : signedIn;
  const client = current?.client;

  const signIn = (newToken) => {
    setOffered(null);
    setRefused(false);
    setSignedIn(loginOf(newToken));
  };
  const signInBySession = (user) => {
    setRefused(false);
    setSignedIn(sessionOf(user));
  };
  const signOut = () => {
    if (isDemo) {
      load();
      return;
    }
    if (current?.bySession) {
      store(sessionKey, '');
      importSignIn().then(({ endSession }) => endSession());
    }
    setSignedIn(null);
  };
  useEffect(
    () => onHandedOverToken((handed) => (keptSession() ? setOffered(handed) : signIn(handed))),
    [],
  );
  // Who signs in in another window is signed in here, too, except in place of an app's token.
  useEffect(() => {
    if (isDemo || (current && !current.bySession)) return undefined;
    const follow = () => {
      const kept = keptSession();
      if (kept && kept.user_id !== current?.user.user_id) location.reload();
    };
    addEventListener('storage', follow);
    return () => removeEventListener('storage', follow);
  }, [client]);
  const [{ data: profile }, reloadProfile] = useFetch(client, client && !isDemo ? '/v1/me' : null);
  const end = () => {
    if (current.bySession) forget(sessionKey);
    setRenewal(null);
    setSignedIn(null);
    setRefused(true);
  };
  // A refused token ends the session. A demo that was restarted has new ones.
  useEffect(() => {
    onRefused((refusedClient) => {
      if (refusedClient !== client) return;
      forgetKept();
      if (isDemo) load();
      else if (current.bySession && read(providerKey))
        import('./renewal.js').then((renewal) => renewal.ask(end, setRenewal), end);
      else end();
    });
  }, [client]);
  return {
    demo,
    login: current && { ...current, user: { ...current.user, ...profile } },
    refused,
    renewal,
    signIn,
    offer: offered && {
      user: userOf(offered),
      accept: () => signIn(offered),
      stay: () => setOffered(null),
    },
    signInBySession,
    signOut,
    onSwitch: ({ user_id: id }) => setChosenId(id),
    onProfile: isDemo ? update : reloadProfile,
  };
}

function App() {
  const { demo, login, refused, renewal, offer, ...rest } = useSession();
  const { signIn, signInBySession, signOut, onSwitch, onProfile } = rest;
  const [board, setBoard] = useState('steps');
  const [today, setToday] = useState(null);
  const [shownLocale, showLocale] = useState(locale);
  const [farewell, setFarewell] = useState(null);
  const [toast, notify, announce] = useToast();
  const [route, path] = useRoute();
  const title = titleOf(route);
  const client = login?.client;
  const kept = isDemo && !login && keptForDemo(demo.error);

  useFocusOnNavigation(location.hash);
  useEffect(() => setTitle('part', t(title)), [title, shownLocale]);

  // Notifications that somebody else has chosen in this browser end.
  const userId = login?.user.user_id;
  useEffect(() => {
    const chose = read(pushKey);
    if (userId && chose && chose !== userId)
      importPush().then(
        ({ endPush }) => endPush(),
        () => {},
      );
  }, [userId]);

  const onLocale = (newLocale) => {
    setLocale(newLocale);
    if (read(pushKey)) importPush().then(({ keepLocale }) => keepLocale());
    showLocale(newLocale);
    announce(''); // what was said before is in the other language
  };
  // A service without the board shows another daily one.
  const onError = useCallback(
    async (error) => {
      if (error.code === 'board_not_found' && client) {
        const { boards } = await fetchJSON(client, '/v1/boards').catch(() => ({ boards: [] }));
        const days = boards.filter(({ kind }) => kind === 'daily');
        const daily = days.find(({ order }) => order !== 'low') ?? days[0];
        if (daily) setBoard(daily.name);
      }
    },
    [client],
  );

  if (farewell) return html`<${farewell} onClose=${() => setFarewell(null)} />`;
  if (kept) {
    return html`<main id="main" class="alone">
      <${KeptRanking} kept=${kept} />
    </main>`;
  }
  if (login && offer) return html`<${Offer} ...${{ login, offer, onLocale }} />`;
  if (!login && isDemo) return html`<${Loading} error=${demo.error} retry=${tryAgain} />`;
  if (!login)
    return html`<${SignIn} ...${{ refused, signIn, signInBySession, onLocale }} path=${[route, ...path]} />`;
  const session = { ...login, people: demo.people, board, today };
  const Screen = Object.hasOwn(screens, route) ? screens[route] : Today;
  const screenProps = { session, path, notify, announce, onError, onToday: setToday };
  const leave = () => {
    forgetKept(client);
    signOut();
    location.hash = '#/';
  };
  const onDeleted = (component) => {
    setFarewell(() => component);
    leave();
  };
  return html`<${Layout} ...${{ session, title, onSwitch, onLocale }}>
      <${ErrorBoundary} hash=${location.hash}>
        <${Screen} key=${client.key} ...${screenProps} ...${{ onProfile, onDeleted }} signOut=${leave} />
      <//>
    <//>
    ${toast}${renewal}`;
}

render(html`<${App} />`, document.getElementById('app'));
