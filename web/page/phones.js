// Upload addresses: the viewer's phones whose apps send steps here.
import { fetchJSON, pollInterval, useFetch } from './data.js';
import { ErrorNotice, errorText, Icon, Skeleton, useTitle } from './components.js';
import { Dialog, Question } from './dialog.js';
import { TextForm } from './forms.js';
import { addTexts, errorOf, formatDateTime, formatDay, formatNumber, t } from './i18n.js';
import { Invitation } from './invitations.js';
import { texts } from './translations-phones.js';
import { html, useState } from './view.js';

addTexts(texts);

const list = '/v1/me/upload-addresses';

const apps = ['export', 'shortcuts', 'connect', 'other'];

// unreachable reports whether only this machine reaches an address.
const unreachable = (host) => host === 'localhost' || /^127\.|^\[::1\]$/.test(host);

// addressOf returns the address of a path of the service, which serves the page, too.
const addressOf = (path) => new URL(`.${path}`, new URL('./', location.href)).href;

// Steps says for each app what to set there.
function Steps() {
  const app = (name) => html`<details key=${name} name="app">
    <summary>${t(`app_${name}`)}</summary>
    <ol>
      ${[1, 2, 3].map((n) => html`<li key=${n}>${t(`app_${name}_${n}`)}</li>`)}
    </ol>
  </details>`;
  return html`<section class="ask card how" aria-label=${t('phoneApp')}>
    <h2>${t('phoneApp')}</h2>
    ${apps.map(app)}
  </section>`;
}

// lastSeen says when an address was used last and what that has led to.
function lastSeen({ last_used_at: at, last_result: result }) {
  if (!at) return t('phoneUnused');
  const when = formatDateTime(at);
  if (result.date) {
    const day = formatDay(result.date);
    return t('phoneSeen', { when, score: formatNumber(result.score), day });
  }
  return t('phoneNothing', { when, why: result.code ? errorOf(result.code) : t('phoneNoSteps') });
}

function Phone({ address, onRevoke }) {
  return html`<li class="person">
    <span class="who">
      <span class="name">${address.name}</span>
      <span class="label">${`${lastSeen(address)} · ${address.time_zone}`}</span>
    </span>
    <span class="person-actions">
      <button class="button" aria-haspopup="dialog" onClick=${onRevoke}>${t('revoke')}</button>
    </span>
  </li>`;
}

// Phones makes, lists and revokes the addresses of the viewer's phones. An address is shown once.
export function Phones({ client, board, notify }) {
  const [{ data, state, error }, retry] = useFetch(client, list, pollInterval);
  const [made, setMade] = useState(null);
  const [revoked, setRevoked] = useState(null);
  const [wrong, setWrong] = useState(null);
  useTitle(t('phones'));
  const add = async (name) => {
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    const body = { name, board, time_zone: timeZone };
    setMade(await fetchJSON(client, list, { method: 'POST', body }));
    retry();
    return '';
  };
  const revoke = async () => {
    try {
      await fetchJSON(client, `${list}/${revoked.id}`, { method: 'DELETE' });
      if (made?.id === revoked.id) setMade(null);
      setRevoked(null);
      notify(t('revoked', { name: revoked.name }));
    } catch (cause) {
      setWrong(cause);
    }
    retry();
  };
  const dialog = () => html`<${Dialog} title=${t('revokeTitle')} onClose=${() => setRevoked(null)}>
    ${(close) =>
      html`<${Question}
          hint=${t('revokeHint', { name: revoked.name })}
          keep=${t('notNow')}
          action=${t('revoke')}
          close=${close}
          onConfirm=${revoke}
        />
        <p class="wrong" role="alert">${wrong && errorText(wrong)}</p>`}
  <//>`;
  const phones = () => {
    if (!data && state === 'loading') return html`<${Skeleton} rows=${2} />`;
    if (!data) return html`<${ErrorNotice} error=${error} retry=${retry} />`;
    const row = (address) => html`<${Phone}
      key=${address.id}
      address=${address}
      onRevoke=${() => {
        setWrong(null);
        setRevoked(address);
      }}
    />`;
    return html`<ul class="people" role="list">${data.upload_addresses.map(row)}</ul>`;
  };
  const card = () =>
    html`<section class="card list" aria-label=${t('phones')}>${phones()}</section>`;
  const shown = () => html`<${Invitation}
      link=${addressOf(made.path)}
      title=${t('phones')}
      label=${t('phoneAddress', { name: made.name })}
      hint=${t('phoneAddressHint')}
      notify=${notify}
    />
    ${unreachable(location.hostname) && html`<p class="wrong" role="alert">${t('phoneUnreachable')}</p>`}`;
  return html`<div class="page">
    <header class="title">
      <a class="round" href="#/me" aria-label=${t('back')}><${Icon} name="back" /></a>
      <h1 tabindex="-1">${t('phones')}</h1>
    </header>
    <p class="hint">${t('phonesHint')}</p>
    <${TextForm} id="phone" label=${t('phoneName')} hint=${t('phoneNameHint')} action=${t('phoneAdd')} submit=${add} />
    ${made && shown()}
    <${Steps} />
    ${(!data || data.upload_addresses.length > 0) && card()}
    ${revoked && dialog()}
  </div>`;
}
