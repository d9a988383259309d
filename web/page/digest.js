// How a day went: a card on its own screen, and a line about yesterday behind today's list.
import { useFetch } from './data.js';
import { Avatar, Name } from './components.js';
import { addDays, formatNumber, formatRank, t, tRich } from './i18n.js';
import { html } from './view.js';

const placesOnPodium = 3;

// Podium shows the first three of a ranking; the first one is in the middle.
function Podium({ entries }) {
  const step = (entry) => html`<li key=${entry.user_id} class=${`step step-${entry.rank}`}>
    <${Avatar} user=${entry} size=${entry.rank === 1 ? 'large' : ''} />
    <${Name} user=${entry} /><span class="label">${formatNumber(entry.score)}</span>
    <b>
      <span aria-hidden="true">${entry.rank}</span>
      <span class="visually-hidden">${formatRank(entry.rank)}</span>
    </b>
  </li>`;
  return html`<ol class="podium" role="list" aria-label=${t('firstThree')}>
    ${entries.slice(0, placesOnPodium).map(step)}
  </ol>`;
}

// partsOf returns in a few words each how a day went, among whom. likes is undefined as long as it is not known.
function partsOf({ me, champion, total }, among, likes) {
  const name = html`<${Name} user=${champion} />`;
  const parts = [
    me && t('digestPlace', { place: formatRank(me.rank), total: formatNumber(total), among }),
    me?.user_id !== champion.user_id && tRich('digestFirst', { name }),
    likes > 0 && t('digestLikes', { n: formatNumber(likes), count: likes }),
  ].filter(Boolean);
  return parts.map((part, i) => html`<span key=${i}>${i > 0 && ' · '}${part}</span>`);
}

// PastDayCard is the card of a past day, on its own screen.
export function PastDayCard({ ranking, circle, likes }) {
  if (!ranking.champion) return null;
  const title = t(ranking.final ? 'dayResult' : 'daySoFar');
  return html`<section class="card day-card" aria-label=${title}>
    <${Podium} entries=${ranking.entries} />
    <div class="day-card-text">
      <h2>${title}</h2>
      <p class="digest">${partsOf(ranking, circle.among, likes)}</p>
    </div>
  </section>`;
}

// Yesterday is a line about the day before today, whose date is given, that leads to it: the viewer's
// place, or else who came first, as more does not fit on a phone.
export function Yesterday({ session, circle, date }) {
  const day = addDays(date, -1);
  const path = `${circle.path}?date=${day}&limit=1`;
  const [{ data: ranking }] = useFetch(session.client, path);
  if (!ranking?.champion) return null;
  return html`<p class="card yesterday">
    <a href=${circle.href('day', day)}>${t('yesterday')}</a>
    <span class="digest">${partsOf(ranking, circle.among)[0]}</span>
  </p>`;
}
