// Places won and lost since the viewer's last look at a ranking of today.
import { forget, read, store } from './storage.js';
import { useEffect, useRef, useState } from './view.js';

const storageKey = 'places';
// A look ends when the page was out of sight for this long, in milliseconds.
const awayTime = 5 * 60 * 1000;
// Places of this many rankings are kept.
const keptRankings = 10;

// hashOf returns a number for a text. Places stay when the viewer signs out, and others may use
// the same browser, so they have no user ids.
function hashOf(text) {
  let hash = 2166136261;
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return (hash >>> 0).toString(36);
}

// looks returns what is kept: a list of {key, date, places}, the newest first.
function looks() {
  try {
    const kept = JSON.parse(read(storageKey));
    return Array.isArray(kept) ? kept : [];
  } catch {
    return []; // it is not the page's
  }
}

function keep(look) {
  const others = looks().filter(({ key }) => key !== look.key);
  store(storageKey, JSON.stringify([look, ...others].slice(0, keptRankings)));
}

// What each ranking was compared with since the page was opened or came back into sight.
const baselines = new Map();
let hiddenAt = 0;
document.addEventListener('visibilitychange', () => {
  if (document.hidden) hiddenAt = Date.now();
  else if (Date.now() - hiddenAt > awayTime) baselines.clear();
});

// forgetPlaces removes all places, of everybody who has used this browser.
export function forgetPlaces() {
  baselines.clear();
  forget(storageKey);
}

// useMoves returns a function that returns how many places an entry has won since the last
// look, negative if it has lost some. whose names the viewer and the ranking. It returns 0
// for everybody if ranking is null or the last look was on another day.
export function useMoves(whose, ranking) {
  const key = hashOf(whose);
  const hash = ({ user_id: id }) => hashOf(`${whose} ${id}`);
  const shown = useRef(null);
  const [, redraw] = useState(0);
  if (ranking) {
    const places = Object.fromEntries(
      [...ranking.entries, ranking.me ?? []].flat().map((entry) => [hash(entry), entry.rank]),
    );
    shown.current = { key, date: ranking.date, places };
  }
  useEffect(() => {
    const change = () => {
      if (document.hidden && shown.current) keep(shown.current);
      redraw((n) => n + 1);
    };
    const leave = () => shown.current && keep(shown.current);
    document.addEventListener('visibilitychange', change);
    addEventListener('pagehide', leave);
    return () => {
      leave();
      document.removeEventListener('visibilitychange', change);
      removeEventListener('pagehide', leave);
    };
  }, [key]);
  if (!ranking) return () => 0;
  if (!baselines.has(key))
    baselines.set(
      key,
      looks().find((look) => look.key === key),
    );
  const last = baselines.get(key);
  return (entry) => {
    const before = last?.date === ranking.date ? last.places?.[hash(entry)] : undefined;
    return Number.isInteger(before) ? before - entry.rank : 0;
  };
}
