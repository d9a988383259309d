// The viewer's own profile.
import { fetchJSON, useFetch } from './data.js';
import { Avatar, ErrorNotice, errorText, lazy, Name, Skeleton } from './components.js';
import { Account } from './account.js';
import { addTexts, t, tRich } from './i18n.js';
import { Notices } from './notices.js';
import { Privacy } from './privacy.js';
import { texts } from './translations-webhooks.js';
import { html, useState } from './view.js';

addTexts(texts);

const Devices = lazy(() => import('./devices.js').then((module) => module.Devices));
const Phones = lazy(() => import('./phones.js').then((module) => module.Phones));

// fieldErrors returns a text for each field that the service refuses, by the name of
// the field, and under form for what concerns none of them.
function fieldErrors(error) {
  const texts = {};
  if (error.code === 'validation_failed') {
    for (const field of ['nickname', 'avatar_url', 'cover_url']) {
      if (error.locations.includes(`body.${field}`)) texts[field] = t(`${field}_error`);
    }
  }
  return Object.keys(texts).length > 0 ? texts : { form: errorText(error) };
}

function Field({ id, label, hint, error, ...input }) {
  return html`<div class="labelled">
    <label for=${id}>${label}</label>
    <input
      id=${id}
      ...${input}
      spellcheck=${false}
      aria-invalid=${error ? 'true' : undefined}
      aria-describedby=${`${id}-hint ${id}-wrong`}
    />
    <p id=${`${id}-hint`} class="hint">${hint}</p>
    <p id=${`${id}-wrong`} class="wrong" role="alert">${error}</p>
  </div>`;
}

// ProfileForm edits a profile. Each error is shown beside its field.
function ProfileForm({ profile, save }) {
  const [nickname, setNickname] = useState(profile.nickname);
  const [address, setAddress] = useState(profile.avatar_url);
  const [cover, setCover] = useState(profile.cover_url);
  const [errors, setErrors] = useState({});
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      setErrors({});
      const addresses = { avatar_url: address.trim(), cover_url: cover.trim() };
      const stored = await save({ nickname, ...addresses });
      setNickname(stored.nickname);
      setAddress(stored.avatar_url);
      setCover(stored.cover_url);
    } catch (error) {
      setErrors(fieldErrors(error));
    }
    setBusy(false);
  };
  return html`<form class="profile card" onSubmit=${submit} novalidate>
    <${Field}
      id="nickname"
      label=${t('nickname')}
      hint=${t('nicknameHint')}
      error=${errors.nickname}
      autocomplete="nickname"
      value=${nickname}
      onInput=${(event) => setNickname(event.target.value)}
    />
    <${Field}
      id="avatar"
      type="url"
      label=${t('avatar')}
      hint=${t('avatarHint', { origin: location.origin })}
      error=${errors.avatar_url}
      autocomplete="off"
      value=${address}
      onInput=${(event) => setAddress(event.target.value)}
    />
    <${Field}
      id="cover"
      type="url"
      label=${t('cover')}
      hint=${t('coverHint', { origin: location.origin })}
      error=${errors.cover_url}
      autocomplete="off"
      value=${cover}
      onInput=${(event) => setCover(event.target.value)}
    />
    <p class="wrong" role="alert">${errors.form}</p>
    <button class="button strong" disabled=${busy}>${t('save')}</button>
  </form>`;
}

// Profile is the screen of the profile, or of phones or devices below it.
export function Profile({ path, ...props }) {
  const { session, notify } = props;
  if (path[0] === 'phones')
    return html`<${Phones} ...${{ client: session.client, board: session.board, notify }} />`;
  if (path[0] === 'devices') return html`<${Devices} ...${{ client: session.client, notify }} />`;
  return html`<${Own} ...${props} />`;
}

function Own({ session, notify, onProfile, onDeleted, signOut }) {
  const { client, user } = session;
  const [{ data, state, error }, retry] = useFetch(client, '/v1/me');
  const save = async (body) => {
    const stored = await fetchJSON(client, '/v1/me', { method: 'PUT', body });
    onProfile(stored);
    notify(t('profileSaved'));
    return stored;
  };
  const form = () => {
    if (data) return html`<${ProfileForm} profile=${data} save=${save} />`;
    return html`<section class="card list">
      ${state === 'loading' ? html`<${Skeleton} rows=${3} />` : html`<${ErrorNotice} error=${error} retry=${retry} />`}
    </section>`;
  };
  return html`<div class="page">
    <header class="title">
      <${Avatar} user=${user} size="large" />
      <h1 tabindex="-1"><${Name} user=${user} /></h1>
    </header>
    <p class="hint own-id">${tRich('ownId', { id: html`<b>${user.user_id}</b>` })}</p>
    ${form()}
    <p class="buttons">
      <a class="button" href="#/me/phones">${t('connectPhone')}</a>
      ${session.bySession && html`<a class="button" href="#/me/devices">${t('devices')}</a>`}
      ${client.operator && html`<a class="button" href="console">${t('console')}</a>`}
    </p>
    <${Notices} ...${{ session, notify }} />
    <${Privacy} client=${client} notify=${notify} />
    <${Account} ...${{ client, notify, onDeleted }} />
    ${
      session.people
        ? html`<a class="button" href="#/webhooks">${t('webhooks')}</a>`
        : html`<button class="button" onClick=${signOut}>${t('signOut')}</button>`
    }
  </div>`;
}
