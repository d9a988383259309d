// The overview: stores, what waits, processes and jobs.
import { useFetch } from '../assets/data.js';
import { Icon } from '../assets/components.js';
import { formatDuration, formatNumber, t } from '../assets/i18n.js';
import { html } from '../assets/view.js';
import { Fetched, number, Panel, refreshEvery, Table, when } from './parts.js';

function Store({ store: { name, ok } }) {
  const isMemory = name === 'redis_memory';
  const state = t(ok ? (isMemory ? 'hasRoom' : 'answers') : isMemory ? 'isFull' : 'away');
  return html`<li class=${ok ? 'store' : 'store lost'}>
    <${Icon} name=${ok ? 'check' : 'cloud'} />
    <span>${t('store', { name: t(`store_${name}`), state })}</span>
  </li>`;
}

// Count is a number that leads to its list; one above 0 that needs somebody stands out.
function Count({ name, value, href, urgent, hint }) {
  const content = html`<strong>${formatNumber(value)}</strong><span>${t(name)}</span>${
    hint && html`<span class="label">${hint}</span>`
  }`;
  const kind = `tally${urgent && value > 0 ? ' urgent' : ''}`;
  return html`<li>
    ${href ? html`<a class=${kind} href=${href}>${content}</a>` : html`<div class=${kind}>${content}</div>`}
  </li>`;
}

function Work({ work, queue, processes }) {
  const sum = (name) => processes.reduce((total, process) => total + process[name], 0);
  const hint = queue?.messages > 0 && t('oldest', { time: formatDuration(queue.oldest_ms) });
  return html`<ul class="tallies">
    <${Count} name="deadLetters" value=${work.dead_letters} href="#/deadLetters" urgent />
    <${Count} name="reviews" value=${work.reviews_open} href="#/reviews" urgent />
    <${Count} name="archiveFailed" value=${work.archive_failed} href="#/runs/state=failed" urgent />
    <${Count} name="archiveDue" value=${work.archive_due} href="#/boards" />
    <${Count} name="deliveriesFailed" value=${work.deliveries_failed} href="#/deliveries/state=failed" urgent />
    <${Count} name="deliveriesWaiting" value=${work.deliveries_waiting} href="#/deliveries/state=waiting" />
    <${Count} name="correctionsPending" value=${work.corrections_pending} href="#/corrections" />
    <${Count} name="streams" value=${sum('streams')} />
    <${Count} name="refused" value=${sum('refused')} />
    ${queue && html`<${Count} name="queue" value=${queue.messages} hint=${hint} />`}
  </ul>`;
}

const processColumns = [
  ['host', (row) => row.host],
  ['version', (row) => row.version],
  ['roles', (row) => row.roles.join(', ')],
  ['started', (row) => when(row.started_at)],
  ['seen', (row) => when(row.seen_at)],
  ['streams', (row) => number(row.streams)],
  ['refused', (row) => number(row.refused)],
];

const jobColumns = [
  ['job', (row) => row.name],
  ['started', (row) => when(row.started_at)],
  ['lastSuccess', (row) => when(row.succeeded_at)],
  ['lastFailure', (row) => when(row.failed_at)],
  ['error', (row) => row.error],
];

export function Overview({ token }) {
  const result = useFetch(token, '/v1/admin/status', refreshEvery);
  const known = (work, shown) => (work ? shown() : html`<p class="hint">${t('unknown')}</p>`);
  const show = ({ stores, degraded, work, queue, processes, jobs, version }) => html`
    <${Panel} title=${t('stores')}>
      <ul class="stores">
        ${stores.map((store) => html`<${Store} key=${store.name} store=${store} />`)}
      </ul>
      ${
        degraded.length > 0 &&
        html`<p class="wrong">${t('degraded', { work: degraded.join(', ') })}</p>`
      }
      <p class="label">${t('servedBy', { version })}</p>
    <//>
    <${Panel} title=${t('waits')}>
      ${known(work, () => html`<${Work} ...${{ work, queue, processes }} />`)}
    <//>
    <${Panel} title=${t('processes')}>
      ${known(
        work,
        () =>
          html`<${Table}
            label=${t('processes')}
            columns=${processColumns}
            rows=${processes}
            keyOf=${({ id }) => id}
          />`,
      )}
    <//>
    <${Panel} title=${t('jobs')}>
      ${known(
        work,
        () =>
          html`<${Table} label=${t('jobs')} columns=${jobColumns} rows=${jobs} keyOf=${({ name }) => name} />`,
      )}
    <//>
  `;
  return html`<h1 tabindex="-1">${t('overview')}</h1>
    <${Fetched} result=${result}>${show}<//>`;
}
