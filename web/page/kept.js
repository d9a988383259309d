// The last ranking, while there is no connection.
import { Banner, Notice } from './components.js';
import { formatDateTime, formatLongDay, t } from './i18n.js';
import { RankingList } from './ranking.js';
import { html } from './view.js';

// KeptRanking shows a kept ranking, and of when it is.
export function KeptRanking({ kept: { ranking, at } }) {
  const { me, entries, total, date } = ranking;
  const title = date ? formatLongDay(date) : t('amongFriends');
  const props = { label: title, entries, me, total, unit: 'steps', announce: () => {} };
  return html`<div class="page">
    <h1 tabindex="-1">${title}</h1>
    <${Banner} text=${`${t('offlineTitle')} · ${t('stale', { time: formatDateTime(at) })}`} />
    <section class="card list stale" aria-label=${title}>
      ${
        entries.length > 0
          ? html`<${RankingList} ...${props} />`
          : html`<${Notice} icon="walk" title=${t('emptyDay')} />`
      }
    </section>
  </div>`;
}
