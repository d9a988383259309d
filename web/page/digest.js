// The card of a day: the first three, the viewer's place, who leads, and the viewer's likes.
import { useFetch } from './data.js';
import { Avatar, Icon, Name } from './components.js';
import { addDays, formatNumber, formatRank, t, tRich } from './i18n.js';
import { html, useState } from './view.js';

// From this hour on, on the visitor's clock, the card is about today instead of yesterday.
const eveningHour = 19;
const placesOnPodium = 3;

// Podium shows the first three of a ranking; the first one is in the middle.
function Podium({ entries, large }) {
  const step = (entry) => html`<li key=${entry.user_id} class=${`step step-${entry.rank}`}>
    <${Avatar} user=${entry} size=${large && entry.rank === 1 ? 'large' : ''} />
    ${
      large &&
      html`<${Name} user=${entry} /><span class="label">${formatNumber(entry.score)}</span>`
    }
    <b>
      <span aria-hidden="true">${entry.rank}</span>
      <span class="visually-hidden">${formatRank(entry.rank)}</span>
    </b>
  </li>`;
  return html`<ol class=${large ? 'podium large' : 'podium'} role="list" aria-label=${t('firstThree')}>
    ${entries.slice(0, placesOnPodium).map(step)}
  </ol>`;
}

// Digest says in a few words how a day went, or goes. likes is undefined until it is known.
function Digest({ ranking, likes, over }) {
  const { me, champion, total } = ranking;
  const place = { place: formatRank(me?.rank ?? 0), total: formatNumber(total) };
  const leads = me?.user_id !== champion.user_id;
  const name = html`<${Name} user=${champion} />`;
  const parts = [
    me && t(over ? 'digestPlace' : 'digestPlaceNow', place),
    leads && tRich(over ? 'digestFirst' : 'digestLeads', { name }),
    likes > 0 && t('digestLikes', { n: formatNumber(likes), count: likes }),
  ].filter(Boolean);
  return html`<p class="digest">
    ${parts.map((part, i) => html`<span key=${i}>${i > 0 && '· '}${part}</span>`)}
  </p>`;
}

const Card = ({ title, href, large, ranking, likes, over, children }) => html`<section
  class=${large ? 'card day-card large' : 'card day-card'}
  aria-label=${title}
>
  <${Podium} entries=${ranking.entries} large=${large} />
  <div class="day-card-text">
    <h2>${href ? html`<a href=${href}>${title}</a>` : title}</h2>
    <${Digest} ...${{ ranking, likes, over }} />
  </div>
  ${children}
</section>`;

// PastDayCard is the card of a past day, on its own screen.
export function PastDayCard({ ranking, likes }) {
  if (!ranking.champion) return null;
  const title = t(ranking.final ? 'dayResult' : 'daySoFar');
  return html`<${Card} large over ...${{ title, ranking, likes }} />`;
}

// Which cards the visitor has closed, until the page is closed.
const closed = new Set();

// TodayCard is the card on the screen of today: about yesterday, and in the evening about
// today. ranking and likes are today's.
export function TodayCard({ session, circle, ranking, likes }) {
  const evening = new Date().getHours() >= eveningHour;
  const date = evening ? ranking.date : addDays(ranking.date, -1);
  const key = `${session.user.user_id} ${circle.path} ${date}`;
  const [, redraw] = useState(0);
  const hidden = closed.has(key);
  const path = `${circle.path}?date=${date}&limit=${placesOnPodium}&include=likes`;
  const [{ data: yesterday }] = useFetch(session.token, evening || hidden ? null : path);
  const shown = evening ? ranking : yesterday;
  if (hidden || !shown?.champion) return null;
  const close = () => {
    closed.add(key);
    redraw((n) => n + 1);
    document.querySelector('main h1')?.focus({ preventScroll: true });
  };
  const title = t(evening ? 'daySoFar' : 'yesterday');
  const about = { ranking: shown, likes: evening ? likes : shown.me?.likes, over: !evening };
  const href = evening ? undefined : circle.href('day', date);
  return html`<${Card} ...${{ title, href, ...about }}>
    <button class="round" aria-label=${t('close')} onClick=${close}><${Icon} name="close" /></button>
  <//>`;
}
