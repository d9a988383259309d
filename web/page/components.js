// Components that several screens use.
import { errorOf, formatNumber, formatTime, languages, locale, stripBidi, t } from './i18n.js';
import { tryAgain } from './data.js';
import { assetOf } from './storage.js';
import { Component, html, useEffect, useLayoutEffect, useRef, useState } from './view.js';

export const prefersReducedMotion = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

// iconPaths are drawn in a box of 24 by 24.
const iconPaths = {
  today: 'M5 19v-5h4v5M10 19V6h4v13M15 19v-8h4v8',
  history: 'M4 19h16M6 15l4-5 3.5 3L19 6',
  boards: 'M7 4h10v5a5 5 0 0 1-10 0zM7 6H4v1a3 3 0 0 0 3 3M17 6h3v1a3 3 0 0 1-3 3M12 14v4M8.5 20h7',
  friends:
    'M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20a6.5 6.5 0 0 1 13 0' +
    'M16 4.3a3.5 3.5 0 0 1 0 6.4M18.5 14.2A6.5 6.5 0 0 1 21.5 20',
  groups:
    'M12 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM6.5 20v-1a5.5 5.5 0 0 1 11 0v1' +
    'M5.5 6.2a2.6 2.6 0 0 0 0 4.6M2 17.5a4.6 4.6 0 0 1 2-3.7' +
    'M18.5 6.2a2.6 2.6 0 0 1 0 4.6M22 17.5a4.6 4.6 0 0 0-2-3.7',
  crown: 'M4 18h16M4.5 15 3 7l5 3.5L12 5l4 5.5L21 7l-1.5 8z',
  calendar: 'M5 6h14v14H5zM5 10h14M9 3.5V7M15 3.5V7',
  back: 'M15 5l-7 7 7 7',
  walk: 'M13 4.5a1 1 0 1 0 0-.01M8 21l3-6 3 2.5V21M7 12l2-4 4-.5 2 4 3 1M11 15l1.5-7',
  gift: 'M4 11h16v9H4zM3 7h18v4H3zM12 7v13M12 7c-5 0-5-4-2.5-4S12 7 12 7s0-4 2.5-4S17 7 12 7z',
  chevron: 'M7 10l5 5 5-5',
  lock: 'M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3',
  cloud: 'M7 18h10a4 4 0 0 0 .5-8A6 6 0 0 0 6 9.5 4.3 4.3 0 0 0 7 18zM4 4l16 17',
  clock: 'M12 20a8 8 0 1 0 0-16 8 8 0 0 0 0 16zM12 8v4l3 2',
  more: 'M12 5.5v.01M12 12v.01M12 18.5v.01',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  heart: 'M12 20C5 15 3 12 3 9a4.5 4.5 0 0 1 9-1 4.5 4.5 0 0 1 9 1c0 3-2 6-9 11z',
  share: 'M12 15V4M8 7.5 12 3.5l4 4M5 12v8h14v-8',
  close: 'M6 6l12 12M18 6 6 18',
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
    <path d=${iconPaths[name]} />
  </svg>`;
}

// avatarHue returns a user's colour, always the same one. Multiples of the golden
// angle are far apart, so users with consecutive numbers look different.
export function avatarHue(id) {
  let hash = 0;
  for (const c of id) hash = (hash * 10 + c.charCodeAt(0)) % 3600;
  return Math.round((hash * 137.508) % 360);
}

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' });
const firstGrapheme = (text) =>
  graphemes.segment(text)[Symbol.iterator]().next().value?.segment ?? '';

// initials returns the initials of the first and the last word of a name. Of a
// name in Han characters it returns the last character, as is usual there. Without a name
// it returns the end of the id, long enough to tell numbers such as 1001 and 2001 apart.
export function initials(name, id) {
  const words = stripBidi(name)
    .split(/\s+/)
    .map((word) => word.replace(/^[^\p{L}\p{N}\p{Extended_Pictographic}]+/u, ''))
    .filter(Boolean);
  if (words.length === 0) return id.slice(-4);
  if (/^\p{Script=Han}+$/u.test(words[0])) return words[0].slice(-1);
  const first = firstGrapheme(words[0]);
  const last = words.length > 1 ? firstGrapheme(words.at(-1)) : '';
  const pictographic = /\p{Extended_Pictographic}/u.test(first + last);
  return (pictographic ? first : first + last).toUpperCase();
}

// sameOrigin returns the address of a picture if it has the page's own origin,
// and otherwise null: another server would learn who looks at whom, and when.
export function sameOrigin(address) {
  if (!address) return null;
  try {
    return new URL(address, location.href).origin === location.origin ? address : null;
  } catch {
    return null;
  }
}

export function Avatar({ user, size = '' }) {
  const [broken, setBroken] = useState(false);
  const picture = broken ? null : sameOrigin(user.avatar_url);
  const style = { '--hue': String(avatarHue(keyOf(user))) };
  const text = initials(user.nickname, user.user_id ?? '?');
  return html`<span class=${`avatar ${size} ${text.length > 2 ? 'tight' : ''}`} style=${style} aria-hidden="true">
    ${
      picture
        ? html`<img src=${picture} alt="" loading="lazy" onError=${() => setBroken(true)} />`
        : text
    }
  </span>`;
}

// Profiles that a list has shown, for screens that know only a user id.
const profiles = new Map();
export const cacheProfiles = (users) =>
  users
    .filter((user) => !user.anonymous)
    .forEach((user) => profiles.set(user.user_id, { ...user, known: true }));
export const cachedProfile = (id) =>
  profiles.get(id) ?? { user_id: id, nickname: '', avatar_url: '' };

export const nameOf = (user) =>
  user.anonymous ? t('anonymous') : user.nickname || `#${user.user_id}`;

// keyOf returns what tells the lines of a list apart: the user id, or the place of an
// anonymous line. No user id has a space.
export const keyOf = (user) => user.user_id ?? `place ${user.rank}`;

// Name shows a name in a bdi element, so that its characters can't change the
// direction of the text around it.
export function Name({ user }) {
  return html`<bdi class="name" title=${stripBidi(nameOf(user))}>${nameOf(user)}</bdi>`;
}

const countTime = 600;

// AnimatedNumber counts up or down to its value.
export function AnimatedNumber({ value }) {
  const [shown, setShown] = useState(value);
  const current = useRef(value);
  useEffect(() => {
    const from = current.current;
    if (from === value) return undefined;
    const show = (n) => {
      current.current = n;
      setShown(n);
    };
    if (prefersReducedMotion() || document.hidden) {
      show(value);
      return undefined;
    }
    const start = performance.now();
    let frame = requestAnimationFrame(function step(now) {
      const progress = Math.min(1, (now - start) / countTime);
      const eased = 1 - (1 - progress) ** 3;
      show(progress === 1 ? value : Math.round(from + (value - from) * eased));
      if (progress < 1) frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  }, [value]);
  return html`<span>
    <span aria-hidden="true">${formatNumber(shown)}</span>
    <span class="visually-hidden">${formatNumber(value)}</span>
  </span>`;
}

// LanguageButton switches to the other language.
export function LanguageButton({ onChange }) {
  const other = Object.keys(languages).find((key) => key !== locale);
  return html`<button class="language" lang=${other} onClick=${() => onChange(other)}>
    ${languages[other]}
  </button>`;
}

// Notice shows a message in place of content.
export function Notice({ icon, title, hint, action, onAction }) {
  return html`<div class="notice" role="status">
    <span class="notice-icon"><${Icon} name=${icon} /></span>
    <h2>${title}</h2>
    ${hint && html`<p>${hint}</p>`}
    ${action && html`<button class="button" onClick=${onAction}>${action}</button>`}
  </div>`;
}

// errorText returns a text about an error for people, in their language. The
// service's own text is for developers.
export function errorText(error) {
  const text = errorOf(error?.code);
  if (text) return text;
  if (!error) return t('wrong');
  if (error.status === 0) return t('offlineHint');
  if (error.status === 404) return t('notFound');
  if (error.status === 429) return t('tooMany');
  if (error.status >= 500) return t('unavailable');
  return t('wrong');
}

export function ErrorNotice({ error, retry }) {
  if (error?.status === 404) {
    return html`<${Notice} icon="lock" title=${t('notFound')} hint=${t('notFoundHint')} />`;
  }
  const title = t(error?.status === 0 ? 'offlineTitle' : 'wrong');
  return html`<${Notice}
    icon="cloud"
    title=${title}
    hint=${errorText(error)}
    action=${retry && t('retry')}
    onAction=${retry}
  />`;
}

// The tab of the browser is named after the screen, or after the part of the page that is open.
const titles = { part: '', screen: '' };

export function setTitle(which, text) {
  titles[which] = text;
  document.title = `${titles.screen || titles.part} · Stepboard`;
}

// useTitle gives a screen a title of its own, if there is one.
export function useTitle(title) {
  useLayoutEffect(() => {
    setTitle('screen', title);
    return () => setTitle('screen', '');
  }, [title]);
}

// ErrorBoundary shows a message in place of children that can't be drawn, until
// the address changes.
export class ErrorBoundary extends Component {
  componentDidCatch(error) {
    this.setState({ error });
  }

  componentDidUpdate(before) {
    if (this.state.error && before.hash !== this.props.hash) this.setState({ error: null });
  }

  render({ children }, { error }) {
    if (!error) return children;
    const retry = () => this.setState({ error: null });
    return html`<section class="card"><${ErrorNotice} error=${error} retry=${retry} /></section>`;
  }
}

let laterStyles;

// addLaterStyles adds the styles that the page does without until the first ranking is
// shown. The promise resolves once they apply.
function addLaterStyles() {
  laterStyles ??= new Promise((resolve, reject) => {
    const link = document.createElement('link');
    const fail = () => {
      link.remove();
      laterStyles = null;
      reject(new Error('no styles'));
    };
    Object.assign(link, { rel: 'stylesheet', href: assetOf('later.css') });
    Object.assign(link, { onload: resolve, onerror: fail });
    document.head.append(link);
  });
  return laterStyles;
}

// importLater calls load, which imports a module, and returns a promise of the module,
// which resolves once its styles apply, too.
const importLater = async (load) => (await Promise.all([load(), addLaterStyles()]))[0];

// lazy returns a component whose module is loaded when it is first shown.
export function lazy(load) {
  let Loaded = null;
  return function Lazy(props) {
    const [, update] = useState(0);
    const [error, setError] = useState(null);
    const start = () => {
      setError(null);
      importLater(load).then(
        (component) => {
          Loaded = component;
          update((n) => n + 1);
        },
        () => setError({ status: 0 }),
      );
    };
    useEffect(() => {
      if (!Loaded) start();
    }, []);
    if (Loaded) return html`<${Loaded} ...${props} />`;
    return html`<section class="card list">
      ${error ? html`<${ErrorNotice} error=${error} retry=${start} />` : html`<${Skeleton} />`}
    </section>`;
  };
}

// useLater returns a module once it is wanted and here; before, and without a connection, it
// returns null. load imports it.
export function useLater(load, wanted) {
  const [module, setModule] = useState(null);
  useEffect(() => {
    if (wanted && !module) importLater(load).then(setModule, () => {});
  }, [wanted]);
  return module;
}

const skeletonRow = (i) => html`<div class="row" key=${i} aria-hidden="true">
  <span class="ghost rank"></span>
  <span class="ghost avatar"></span>
  <span class="who"><span class="ghost line"></span><span class="ghost bar"></span></span>
  <span class="ghost score"></span>
</div>`;

// Skeleton stands for a list that is loading.
export function Skeleton({ rows = 8 }) {
  return html`<div class="skeleton" role="status">
    <span class="visually-hidden">${t('loading')}</span>
    ${Array.from({ length: rows }, (_, i) => skeletonRow(i))}
  </div>`;
}

// Class and text of a state of useFetch or useLiveRanking.
const statusPills = {
  live: ['live', 'live'],
  polling: ['slow', 'polling'],
  ready: ['slow', 'open'],
  running: ['live', 'running'],
  offline: ['lost', 'offline'],
  error: ['lost', 'reconnecting'],
};

// StatusPill shows how current a ranking is.
export function StatusPill({ state, final }) {
  if (final) {
    return html`<span class="pill final"><${Icon} name="check" />${t('final')}</span>`;
  }
  const [kind, text] = statusPills[state] ?? ['slow', 'loading'];
  return html`<span class=${`pill ${kind}`}><i></i>${t(text)}</span>`;
}

// Banner says why what is shown is out of date, and lets the visitor ask the service at once.
export function Banner({ text }) {
  return html`<div class="banner">
    <${Icon} name="cloud" />
    <p role="status">${text}</p>
    <button class="button" onClick=${tryAgain}>${t('retry')}</button>
  </div>`;
}

// StaleBanner says that a ranking is out of date, and why.
export function StaleBanner({ error, at }) {
  const reason = t(error?.status === 0 ? 'offlineTitle' : 'unavailable');
  return html`<${Banner} text=${`${reason} · ${t('stale', { time: formatTime(at) })}`} />`;
}

// SegmentedControl chooses one of a few options, which are [value, text].
export function SegmentedControl({ label, options, value, onChange }) {
  const segment = ([option, text]) => html`<button
    key=${option}
    aria-pressed=${String(option === value)}
    onClick=${() => onChange(option)}
  >
    ${text}
  </button>`;
  return html`<div class="segments" role="group" aria-label=${label}>${options.map(segment)}</div>`;
}
