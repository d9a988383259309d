// What the viewer can do with everything that is stored about them: save it, or delete it.
import { fetchJSON } from './data.js';
import { errorText, Icon } from './components.js';
import { Dialog, exportName, useExport } from './dialog.js';
import { addTexts, t, tRich } from './i18n.js';
import { forgetPlaces } from './moves.js';
import { assetOf, forget, goalKey, seenLikesKey } from './storage.js';
import { texts } from './translations-account.js';
import { html, useEffect, useRef, useState } from './view.js';

addTexts(texts);

// accountError returns a text for an error. What is not stored can be neither saved nor
// deleted.
const accountError = (error) =>
  error.code === 'user_not_found' ? t('nothingStored') : errorText(error);

function Download({ client, notify }) {
  const onSaved = () => notify(t('downloaded', { name: exportName }));
  const { busy, error, download } = useExport(client, '/v1/me/export', onSaved);
  return html`<div>
    <button class="button" id="download" disabled=${busy} onClick=${download}>
      ${t(busy ? 'downloading' : 'download')}
    </button>
    <p class="hint">${t('downloadHint')}</p>
    <p class="wrong" role="alert">${error && accountError(error)}</p>
  </div>`;
}

// Deletion asks for a word before it deletes everything.
function Deletion({ client, onClose, onDeleted }) {
  const [typed, setTyped] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const word = t('deleteWord');
  const confirmed = typed.trim().toLowerCase() === word.toLowerCase();
  const submit = async (event) => {
    event.preventDefault();
    if (!confirmed) return;
    setBusy(true);
    setError(null);
    try {
      await fetchJSON(client, '/v1/me', { method: 'DELETE', body: { confirm: 'erase' } });
      forgetPlaces();
      forget(goalKey);
      forget(seenLikesKey);
      onDeleted();
    } catch (cause) {
      setError(cause);
      setBusy(false);
    }
  };
  const what = ['deleteProfile', 'deleteScores', 'deleteFriends', 'deleteGroups'];
  return html`<${Dialog} title=${t('deleteTitle')} onClose=${onClose}>
    ${(close) => html`<form class="deletion" onSubmit=${submit}>
      <ul>
        ${what.map((key) => html`<li key=${key}>${t(key)}</li>`)}
      </ul>
      <p>${t('deleteStays')}</p>
      <p>${t('deleteReturn')}</p>
      <label for="delete-word">${tRich('deleteType', { word: html`<b>${word}</b>` })}</label>
      <input
        id="delete-word"
        autocomplete="off"
        autocapitalize="off"
        spellcheck=${false}
        value=${typed}
        onInput=${(event) => setTyped(event.target.value)}
        aria-describedby="delete-wrong"
      />
      <p id="delete-wrong" class="wrong" role="alert">${error && accountError(error)}</p>
      <div class="buttons">
        <button class="button" type="button" onClick=${close}>${t('keep')}</button>
        <button class="button danger" disabled=${busy || !confirmed}>${t('deleteAction')}</button>
      </div>
    </form>`}
  <//>`;
}

// Farewell is the screen for somebody whose data are being deleted, and who is signed out.
export function Farewell({ onClose }) {
  const heading = useRef(null);
  useEffect(() => heading.current.focus(), []);
  return html`<main class="sign-in" id="main">
    <img src=${assetOf('icon.svg')} alt="" width="64" height="64" />
    <h1 tabindex="-1" ref=${heading}>${t('deleted')}</h1>
    <p>${t('deletedHint')}</p>
    <button class="button" onClick=${onClose}>${t('deletedClose')}</button>
  </main>`;
}

// Account saves and deletes what is stored about the viewer. It calls onDeleted with the
// component that the page shows then.
export function Account({ client, notify, onDeleted }) {
  const [asking, ask] = useState(false);
  const deletion = () => html`<${Deletion}
    client=${client}
    onClose=${() => ask(false)}
    onDeleted=${() => onDeleted(Farewell)}
  />`;
  return html`<section class="card privacy" aria-labelledby="account">
    <h2 id="account"><${Icon} name="cloud" />${t('account')}</h2>
    <${Download} client=${client} notify=${notify} />
    <div>
      <button class="button" id="delete" aria-haspopup="dialog" onClick=${() => ask(true)}>
        ${t('delete')}
      </button>
      <p class="hint">${t('deleteHint')}</p>
    </div>
    ${asking && deletion()}
  </section>`;
}
