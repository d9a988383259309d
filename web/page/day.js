// What the ranking of a day has besides its rows: likes, places won and lost, the card of the
// day and the picture to share. It is loaded once the ranking is shown.
import { seeLikes } from './badges.js';
import { Icon, prefersReducedMotion } from './components.js';
import { PastDayCard, Yesterday } from './digest.js';
import { addTexts, formatNumber, t } from './i18n.js';
import { useLikes } from './likes.js';
import { useMoves } from './moves.js';
import { texts } from './translations-day.js';
import { html, useEffect, useLayoutEffect, useRef, useState } from './view.js';

addTexts(texts);

function Move({ places }) {
  if (!places) return null;
  const n = formatNumber(Math.abs(places));
  const text = t(places > 0 ? 'placesWon' : 'placesLost', { n, count: Math.abs(places) });
  return html`<span class=${places > 0 ? 'move won' : 'move lost'}>
    <span aria-hidden="true">${places > 0 ? '▲' : '▼'}${n}</span>
    <span class="visually-hidden">${text}</span>
  </span>`;
}

const celebratedPlaces = 3;

// useCelebration celebrates when the viewer reaches the first three of more people.
function useCelebration(me, total, notify) {
  const before = useRef(me?.rank);
  useEffect(() => {
    const last = before.current;
    before.current = me?.rank;
    if (!me || !last || me.rank > celebratedPlaces || last <= celebratedPlaces) return;
    if (total <= celebratedPlaces) return;
    notify(t('amongThree'));
    if (!prefersReducedMotion() && !document.hidden) {
      import('./celebrate.js').then(
        ({ celebrate }) => celebrate(),
        () => {},
      );
    }
  }, [me?.rank]);
}

function ShareButton({ circle, ranking, notify }) {
  const [module, setModule] = useState(null);
  const open = () => {
    import('./share.js').then(setModule, () => notify(t('offlineTitle')));
  };
  return html`<button
      class="share"
      aria-haspopup="dialog"
      aria-label=${t('shareDay')}
      title=${t('shareDay')}
      onClick=${open}
    >
      <${Icon} name="share" />
    </button>
    ${
      module &&
      html`<${module.ShareDialog} ...${{ circle, ranking }} onClose=${() => setModule(null)} />`
    }`;
}

// DayExtras shows the card of a past day, or the line about yesterday, and calls onExtras with two
// functions: after(entry, own) returns what a row has beside its link, and share() a button to share
// the day, or nothing. reload fetches a past day again.
export function DayExtras({ session, circle, ranking, past, reload, notify, onExtras }) {
  const likes = useLikes({ session, ranking, reload, notify });
  const whose = `${session.user.user_id} ${circle.path}`;
  const movesOf = useMoves(whose, past ? null : ranking);
  useCelebration(past ? null : ranking.me, ranking.total, notify);
  const after = (entry, own) => html`<${Move} places=${movesOf(entry)} />
    ${likes.heart(entry, own)}`;
  const share = () => ranking.me && html`<${ShareButton} ...${{ circle, ranking, notify }} />`;
  useLayoutEffect(() => onExtras({ after, share }), [ranking, likes.version]);
  useEffect(() => () => onExtras({}), []);
  const own = ranking.me && likes.of(ranking.me)?.likes;
  useEffect(() => {
    if (!past && !circle.group && ranking.me?.likes >= 0) seeLikes(ranking);
  }, [ranking.me?.likes]);
  return html`${
    past
      ? html`<${PastDayCard} ...${{ ranking, circle }} likes=${own} />`
      : html`<${Yesterday} ...${{ session, circle, date: ranking.date }} />`
  }
    ${likes.dialog}`;
}

// DayLikes is DayExtras for a list of people that has hearts on its rows and nothing else. The
// ranking is today's.
export function DayLikes({ session, ranking, notify, onExtras }) {
  const likes = useLikes({ session, ranking, notify });
  useLayoutEffect(() => onExtras({ after: likes.heart }), [ranking, likes.version]);
  useEffect(() => () => onExtras({}), []);
  return likes.dialog;
}
