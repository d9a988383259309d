// The devices on which the viewer is signed in, and codes for further ones.
import { fetchJSON, useFetch } from './data.js';
import { ErrorNotice, errorText, Icon, Skeleton, useTitle } from './components.js';
import { addTexts, formatDateTime, t } from './i18n.js';
import { Invitation } from './invitations.js';
import { texts } from './translations-devices.js';
import { html, useState } from './view.js';

addTexts(texts);

const list = '/v1/me/sessions';

// Device is a line of the list.
function Device({ device, busy, onEnd }) {
  const { device: name, last_used_at: used, current } = device;
  const when = current ? t('thisDevice') : t('deviceUsed', { when: formatDateTime(used) });
  return html`<li class="person">
    <span class="who">
      <span class="name">${name || t('unnamedDevice')}</span>
      <span class="label">${when}</span>
    </span>
    <span class="person-actions">
      ${!current && html`<button class="button" disabled=${busy} onClick=${onEnd}>${t('signOut')}</button>`}
    </span>
  </li>`;
}

// Devices lists and ends the viewer's sessions, and makes codes by which further devices sign in.
export function Devices({ client, notify }) {
  const [{ data, state, error }, retry] = useFetch(client, list);
  const [code, setCode] = useState(null);
  const [wrong, setWrong] = useState(null);
  const [busy, setBusy] = useState(false);
  useTitle(t('devices'));
  const run = async (action) => {
    setBusy(true);
    setWrong(null);
    try {
      await action();
    } catch (cause) {
      setWrong(cause);
    }
    setBusy(false);
  };
  const end = (device) =>
    run(async () => {
      await fetchJSON(client, `${list}/${device.id}`, { method: 'DELETE' });
      notify(t('deviceEnded'));
      retry();
    });
  const make = () =>
    run(async () => {
      setCode((await fetchJSON(client, '/v1/me/sign-in-codes', { method: 'POST' })).code);
    });
  const devices = () => {
    if (!data && state === 'loading') return html`<${Skeleton} rows=${2} />`;
    if (!data) return html`<${ErrorNotice} error=${error} retry=${retry} />`;
    const row = (device) =>
      html`<${Device} key=${device.id} ...${{ device, busy }} onEnd=${() => end(device)} />`;
    return html`<ul class="people" role="list">${data.sessions.map(row)}</ul>`;
  };
  return html`<div class="page">
    <header class="title">
      <a class="round" href="#/me" aria-label=${t('back')}><${Icon} name="back" /></a>
      <h1 tabindex="-1">${t('devices')}</h1>
    </header>
    <section class="card list" aria-label=${t('devices')}>${devices()}</section>
    <p class="hint">${t('deviceCodeHint')}</p>
    <p><button class="button strong" disabled=${busy} onClick=${make}>${t('deviceCode')}</button></p>
    <p class="wrong" role="alert">${wrong && errorText(wrong)}</p>
    ${
      code &&
      html`<p class="code" data-code=${code}>${code}</p>
        <${Invitation}
          link=${new URL(`./#code/${code}`, location.href).href}
          title=${t('devices')}
          label=${t('deviceLink')}
          hint=${t('deviceLinkHint')}
          notify=${notify}
        />`
    }
  </div>`;
}
