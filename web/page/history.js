// The last 31 days of oneself or a friend.
import { number, placeText, plain, shortDay, longDay, t, weekday } from './i18n.js';
import { useCall } from './stream.js';
import { Avatar, Icon, Name, nameOf, Notice, Trouble } from './components.js';
import { html, useEffect, useRef, useState } from './view.js';

const statistics = (entries) => {
  const best = entries.reduce((top, entry) => (entry.score > top.score ? entry : top), entries[0]);
  const sum = entries.reduce((all, entry) => all + entry.score, 0);
  const place = entries.reduce(
    (top, entry) => (entry.global_rank < top.global_rank ? entry : top),
    entries[0],
  );
  return { best, sum, place, average: Math.round(sum / entries.length) };
};

function Chart({ entries, numbers, chosen, choose }) {
  const box = useRef(null);
  useEffect(() => {
    let drop = () => {};
    let gone = false;
    import('./chart.js').then(({ draw }) => {
      if (!gone && box.current) drop = draw(box.current, entries, numbers, choose);
    });
    return () => {
      gone = true;
      drop();
    };
  }, [entries]);
  const label = t('chart', {
    n: entries.length,
    average: number(numbers.average),
    best: number(numbers.best.score),
    day: longDay(numbers.best.date),
  });
  return html`<figure class="chart card">
    <figcaption><span class="label">${t('lastDays')}</span><span class="reading" aria-hidden="true"><b>${number(chosen.score)}</b> ${t('steps')} · ${shortDay(chosen.date)}</span></figcaption>
    <div class="plot" ref=${box} role="img" aria-label=${label}></div>
    <p class="legend" aria-hidden="true"><span><i class="dash"></i>${t('average')}</span><span><i class="dot best"></i>${t('best')}</span></p>
  </figure>`;
}

function Tile({ label, value, note }) {
  return html`<div class="tile card"><dt class="label">${label}</dt><dd><b>${value}</b><span>${note}</span></dd></div>`;
}

function Days({ entries, numbers, own }) {
  return html`<section class="card list" aria-label=${t('days')}>
    <div class="list-head"><h2>${t('days')}</h2><span class="label">${t('worldPlace')}</span></div>
    <ol class="past" role="list">${entries.map(
      (entry) => html`<li key=${entry.date}>
      <${own ? 'a' : 'div'} class="past-day" href=${own ? `#/day/${entry.date}` : undefined}>
        <span class="when"><b>${shortDay(entry.date)}</b><span class="label">${weekday(entry.date)}</span></span>
        <span class="bar"><span style=${{ transform: `scaleX(${numbers.best.score ? entry.score / numbers.best.score : 0})` }}></span></span>
        <span class="score">${number(entry.score)}</span>
        <span class="world"><b>${placeText(entry.global_rank)}</b><span class="label">${t('outOf', { total: number(entry.global_total) })}</span></span>
      <//>
    </li>`,
    )}</ol>
  </section>`;
}

export function History({ session, friend, onProblem }) {
  const path = `/v1/boards/${session.board}/history${friend ? `?for=${friend.user_id}` : ''}`;
  const [{ data, state, problem }, retry] = useCall(session.token, path);
  const [chosen, choose] = useState(null);
  useEffect(() => {
    if (problem) onProblem(problem);
  }, [problem]);
  useEffect(() => {
    choose(null);
  }, [path]);
  const person = friend ?? session.user;
  const head = html`<header class="title">
    ${
      friend &&
      html`<a class="round" href="#/" onClick=${(event) => {
        if (history.length > 1) {
          event.preventDefault();
          history.back();
        }
      }} aria-label=${t('back')}><${Icon} name="back" /></a>`
    }
    ${person && html`<${Avatar} person=${person} size="large" />`}
    <h1 tabindex="-1" aria-label=${friend ? t('historyOf', { name: plain(nameOf(friend)) }) : t('ownHistory')}>${friend ? html`<${Name} person=${friend} />` : t('ownHistory')}</h1>
  </header>`;
  if (!data) {
    return html`<div class="page">${head}${state === 'loading' ? html`<div class="tiles ghosts" role="status"><span class="unseen">${t('loading')}</span>${[0, 1, 2, 3].map((i) => html`<div class="tile card ghostly" key=${i}></div>`)}</div><div class="chart card ghostly"></div>` : html`<section class="card"><${Trouble} problem=${problem} retry=${retry} /></section>`}</div>`;
  }
  const { entries, partial } = data;
  if (entries.length === 0)
    return html`<div class="page">${head}<section class="card"><${Notice} icon="history" title=${t('emptyHistory')} hint=${t('emptyHistoryHint')} /></section></div>`;
  const numbers = statistics(entries);
  return html`<div class="page">${head}
    ${partial && html`<p class="banner" role="status"><${Icon} name="cloud" />${t('partial')}</p>`}
    <dl class="tiles">
      <${Tile} label=${t('average')} value=${number(numbers.average)} note=${t('steps')} />
      <${Tile} label=${t('best')} value=${number(numbers.best.score)} note=${shortDay(numbers.best.date)} />
      <${Tile} label=${t('bestPlace')} value=${placeText(numbers.place.global_rank)} note=${shortDay(numbers.place.date)} />
      <${Tile} label=${t('sum')} value=${number(numbers.sum)} note=${t('total', { n: entries.length })} />
    </dl>
    <${Chart} entries=${entries} numbers=${numbers} chosen=${chosen ?? entries[0]} choose=${choose} />
    <${Days} entries=${entries} numbers=${numbers} own=${!friend} />
  </div>`;
}
