// Small parts of the page.
import { number, plain, t } from './i18n.js';
import { html, useEffect, useRef, useState } from './view.js';

export const still = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

const paths = {
  today: 'M5 19v-5h4v5M10 19V6h4v13M15 19v-8h4v8',
  history: 'M4 19h16M6 15l4-5 3.500 3L19 6',
  boards:
    'M7 4h10v5a5 5 0 0 1-10 0zM7 6H4v1a3 3 0 0 0 3 3M17 6h3v1a3 3 0 0 1-3 3M12 14v4M8.500 20h7',
  friends:
    'M9 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM2.500 20a6.500 6.500 0 0 1 13 0M16 4.300a3.500 3.500 0 0 1 0 6.400M18.500 14.200A6.500 6.500 0 0 1 21.500 20',
  crown: 'M4 18h16M4.500 15 3 7l5 3.500L12 5l4 5.500L21 7l-1.500 8z',
  calendar: 'M5 6h14v14H5zM5 10h14M9 3.500V7M15 3.500V7',
  back: 'M15 5l-7 7 7 7',
  walk: 'M13 4.500a1 1 0 1 0 0-.01M8 21l3-6 3 2.500V21M7 12l2-4 4-.5 2 4 3 1M11 15l1.500-7',
  gift: 'M4 11h16v9H4zM3 7h18v4H3zM12 7v13M12 7c-5 0-5-4-2.500-4S12 7 12 7s0-4 2.500-4S17 7 12 7z',
  chevron: 'M7 10l5 5 5-5',
  lock: 'M6 11h12v9H6zM8.500 11V8a3.500 3.500 0 0 1 7 0v3',
  cloud: 'M7 18h10a4 4 0 0 0 .5-8A6 6 0 0 0 6 9.500 4.300 4.300 0 0 0 7 18zM4 4l16 17',
  clock: 'M12 20a8 8 0 1 0 0-16 8 8 0 0 0 0 16zM12 8v4l3 2',
  check: 'M5 12.500l4.500 4.500L19 7.500',
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${paths[name]} /></svg>`;
}

// hue picks a colour for somebody, always the same. Neighbouring ids, which
// are common, are far apart: by the golden angle.
const hue = (id) => Math.round(((Number(id) % 3600) * 137.508) % 360);

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' });
const first = (text) => graphemes.segment(text)[Symbol.iterator]().next().value?.segment ?? '';

// initials stand for a name: those of its first and last word, or the last
// character of a name in Han characters, as is usual there.
export function initials(name, id) {
  const words = plain(name)
    .split(/\s+/)
    .map((word) => word.replace(/^[^\p{L}\p{N}\p{Extended_Pictographic}]+/u, ''))
    .filter(Boolean);
  if (words.length === 0) return id.slice(-2);
  if (/^\p{Script=Han}+$/u.test(words[0])) return words[0].slice(-1);
  const one = first(words[0]);
  const two = words.length > 1 ? first(words.at(-1)) : '';
  return (/\p{Extended_Pictographic}/u.test(one + two) ? one : one + two).toUpperCase();
}

// ownPicture is a picture that may be shown: one of the page's own origin. Any
// other server would learn who looks at whom, and when.
function ownPicture(address) {
  if (!address) return null;
  try {
    return new URL(address, location.href).origin === location.origin ? address : null;
  } catch {
    return null;
  }
}

export function Avatar({ person, size = '' }) {
  const [broken, setBroken] = useState(false);
  const picture = broken ? null : ownPicture(person.avatar_url);
  return html`<span class=${`avatar ${size}`} style=${{ '--hue': String(hue(person.user_id)) }} aria-hidden="true">
    ${picture ? html`<img src=${picture} alt="" loading="lazy" onError=${() => setBroken(true)} />` : initials(person.nickname, person.user_id)}
  </span>`;
}

const seen = new Map();

// remember keeps who somebody is for screens that are told an id alone.
export const remember = (people) => people.forEach((person) => seen.set(person.user_id, person));
export const known = (id) => seen.get(id) ?? { user_id: id, nickname: '', avatar_url: '' };

export const nameOf = (person) => person.nickname || `#${person.user_id}`;

// Name is somebody's name, in a box of its own: whatever it holds stays in
// there.
export function Name({ person }) {
  return html`<bdi class="name" title=${plain(nameOf(person))}>${nameOf(person)}</bdi>`;
}

// Rolling counts up or down to a number.
export function Rolling({ value }) {
  const [shown, show] = useState(value);
  const at = useRef(value);
  useEffect(() => {
    const from = at.current;
    if (from === value) return undefined;
    if (still() || document.hidden) {
      at.current = value;
      show(value);
      return undefined;
    }
    const begun = performance.now();
    let frame = requestAnimationFrame(function step(now) {
      const part = Math.min(1, (now - begun) / 600);
      at.current = part === 1 ? value : Math.round(from + (value - from) * (1 - (1 - part) ** 3));
      show(at.current);
      if (part < 1) frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  }, [value]);
  return html`<span class="rolling"><span aria-hidden="true">${number(shown)}</span><span class="unseen">${number(value)}</span></span>`;
}

// Notice fills the place of what is not there.
export function Notice({ icon, title, hint, action, onAction, calm }) {
  return html`<div class="notice" role=${calm ? undefined : 'status'}>
    <span class="notice-icon"><${Icon} name=${icon} /></span>
    <h3>${title}</h3>
    ${hint && html`<p>${hint}</p>`}
    ${action && html`<button class="button" onClick=${onAction}>${action}</button>`}
  </div>`;
}

// explain is what a person is told of a problem.
export function explain(problem) {
  if (!problem) return t('wrong');
  if (problem.status === 0) return t('offlineHint');
  if (problem.status === 404) return t('notFound');
  if (problem.status === 429) return t('tooMany');
  if (problem.status >= 500) return t('unavailable');
  return problem.message || t('wrong');
}

export function Trouble({ problem, retry }) {
  const offline = problem?.status === 0;
  if (problem?.status === 404)
    return html`<${Notice} icon="lock" title=${t('notFound')} hint=${t('notFoundHint')} />`;
  return html`<${Notice} icon="cloud" title=${t(offline ? 'offlineTitle' : 'wrong')} hint=${explain(problem)} action=${retry && t('retry')} onAction=${retry} />`;
}

export function Skeleton({ rows = 8 }) {
  return html`<div class="skeleton" role="status"><span class="unseen">${t('loading')}</span>
    ${Array.from({ length: rows }, (_, i) => html`<div class="row" key=${i} aria-hidden="true"><span class="ghost rank"></span><span class="ghost avatar"></span><span class="who"><span class="ghost line"></span><span class="ghost bar"></span></span><span class="ghost score"></span></div>`)}
  </div>`;
}

// Status tells how fresh a ranking is.
export function Status({ state, final }) {
  if (final) return html`<span class="pill final"><${Icon} name="check" />${t('final')}</span>`;
  const [kind, text] = {
    live: ['live', 'live'],
    polling: ['slow', 'polling'],
    ready: ['slow', 'open'],
    offline: ['lost', 'offline'],
    error: ['lost', 'reconnecting'],
  }[state] ?? ['slow', 'loading'];
  return html`<span class=${`pill ${kind}`}><i></i>${t(text)}</span>`;
}

// Segments picks one of a few.
export function Segments({ label, options, value, onChange }) {
  return html`<div class="segments" role="group" aria-label=${label}>
    ${options.map(([key, text]) => html`<button key=${key} aria-pressed=${String(key === value)} onClick=${() => onChange(key)}>${text}</button>`)}
  </div>`;
}
