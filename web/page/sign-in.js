// What is shown to somebody who is not signed in: a form for a code, the way to the app's login, or a form for a token.
import { fetchJSON, useFetch } from './data.js';
import { errorText, LanguageButton, Skeleton } from './components.js';
import { addTexts, stripBidi, t, tRich } from './i18n.js';
import { assetOf, basePath, forget, providerKey, read, sessionKey, store } from './storage.js';
import { texts } from './translations-sign-in.js';
import { html, useEffect, useState } from './view.js';

addTexts(texts);

// endSession signs this device out at the service. Without a connection the session ends when it is not used for long.
export const endSession = () =>
  fetchJSON(null, '/v1/session', { method: 'DELETE', body: {} }).catch(() => {});

// The address of the app's login (page.login_url), or nothing.
const { login, folder, codes } = document.documentElement.dataset;

// tokenCommand returns the command that prints a token of a user of this service.
export const tokenCommand = (user) =>
  `stepboard token ${folder === undefined ? '' : '--data DIR '}--user ${user}`;

// loginAddress returns it with the place to come back to: a path and a hash of this origin.
function loginAddress() {
  const url = new URL(login);
  url.searchParams.set('return_to', location.pathname + location.hash);
  return url.href;
}

// TokenForm asks for a token, above its children. known is a token that is filled in unless something
// was typed.
export function TokenForm({ label, hint, wrong, action, known, signIn, children }) {
  const [typed, setTyped] = useState(null);
  const token = typed ?? known ?? '';
  const submit = (event) => {
    event.preventDefault();
    if (token.trim()) signIn(token.trim());
  };
  return html`<form class="card" onSubmit=${submit}>
      <label for="token">${label}</label>
      <input
        id="token"
        type="password"
        autocomplete="off"
        spellcheck=${false}
        required
        value=${token}
        onInput=${(event) => setTyped(event.target.value)}
        aria-describedby="token-hint"
      />
      ${children}
      <p class="wrong" role="alert">${wrong}</p>
      <button class="button strong">${action}</button>
      <p id="token-hint" class="hint">${hint}</p>
    </form>`;
}

// Entrance is the screen around a form.
export function Entrance({ title, intro, link, onLocale, children }) {
  return html`<main class="sign-in" id="main">
    <img src=${assetOf('icon.svg')} alt="" width="64" height="64" />
    <h1>${title}</h1>
    ${intro && html`<p>${intro}</p>`} ${children}
    <p class="links">${link}<${LanguageButton} onChange=${onLocale} /></p>
  </main>`;
}

// What is said to somebody who has opened an invitation, where nobody can sign in by codes.
const intros = { join: 'invited', invite: 'invitedByFriend' };

// codeError returns a text for an error about a code.
function codeError(error) {
  if (error.status === 404) return t('codeUnknown');
  if (error.status === 429) return t('codeTooMany');
  return errorText(error);
}

// CodeField asks for a code, which it looks at.
function CodeField({ look, wrong, busy }) {
  const [typed, setTyped] = useState('');
  const submit = (event) => {
    event.preventDefault();
    if (typed.trim()) look(typed.trim());
  };
  return html`<form class="card" onSubmit=${submit}>
    <label for="code">${t('code')}</label>
    <input
      id="code"
      autocomplete="one-time-code"
      autocapitalize="characters"
      spellcheck=${false}
      required
      value=${typed}
      onInput=${(event) => setTyped(event.target.value)}
      aria-describedby="code-hint"
    />
    <p class="wrong" role="alert">${wrong && codeError(wrong)}</p>
    <button class="button strong" disabled=${busy}>${t('signIn')}</button>
    <p id="code-hint" class="hint">${t('codeHint')}</p>
  </form>`;
}

// aboutText says what a code is for.
function aboutText({ kind, nickname, group }) {
  const name = stripBidi(nickname ?? group ?? '');
  return t(`code_${kind}`, { name });
}

// NameField asks somebody new for a name, and signs in. A name that a member of the group has is asked about once more.
function NameField({ about, enter, wrong, busy }) {
  const [name, setName] = useState('');
  const taken = wrong?.code === 'nickname_taken';
  const submit = (event) => {
    event.preventDefault();
    if (!about.new || name.trim()) enter(name.trim(), taken);
  };
  const field = () => html`<label for="name">${t('yourName')}</label>
    <input
      id="name"
      autocomplete="nickname"
      required
      maxlength="100"
      value=${name}
      onInput=${(event) => setName(event.target.value)}
      aria-describedby="name-hint"
    />
    <p id="name-hint" class="hint">${t('yourNameHint')}</p>`;
  return html`<form class="card" onSubmit=${submit}>
    <p>${aboutText(about)}</p>
    ${about.new && field()}
    <p class="wrong" role="alert">
      ${wrong && (taken ? t('nameTaken', { name: stripBidi(name) }) : codeError(wrong))}
    </p>
    <button class="button strong" disabled=${busy}>
      ${t(taken ? 'nameTakenGoOn' : (about.new && 'join') || 'signIn')}
    </button>
  </form>`;
}

// codeIn returns the code that an address names, and whether it is an invitation.
function codeIn([route, code]) {
  if (!code) return null;
  if (route === 'code') return { code };
  return route === 'join' || route === 'invite' ? { code, invitation: true } : null;
}

// CodeSignIn signs in by a code: that of the address, or one that is typed.
function CodeSignIn({ path, join, signInBySession }) {
  const given = codeIn(path);
  const [code, setCode] = useState(given?.code);
  const [about, setAbout] = useState(null);
  const [wrong, setWrong] = useState(null);
  const [busy, setBusy] = useState(false);
  const look = async (text) => {
    setBusy(true);
    setWrong(null);
    try {
      const body = { code: text };
      setAbout(await fetchJSON(null, '/v1/session/code', { method: 'POST', body }));
      setCode(text);
    } catch (error) {
      setWrong(error);
    }
    setBusy(false);
  };
  useEffect(() => {
    setAbout(null);
    if (given) look(given.code);
  }, [given?.code]);
  const enter = async (nickname, anyway) => {
    setBusy(true);
    setWrong(null);
    try {
      const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
      const body = { code, time_zone: timeZone, ...(nickname && { nickname, anyway }) };
      const opened = await fetchJSON(null, '/v1/session', { method: 'POST', body });
      if (given?.code === code) location.replace('#/'); // otherwise it is still to be accepted
      forget(providerKey);
      enterAs({ user_id: opened.user_id, nickname: opened.nickname }, signInBySession);
    } catch (error) {
      setWrong(error);
      setBusy(false);
    }
  };
  if (about && about.new && about.kind !== 'first' && join !== 'invited')
    return html`<div class="card"><p>${aboutText(about)}</p><p>${t('joiningClosed')}</p></div>
      <${CodeField} look=${look} busy=${busy} />`;
  if (!about && given && !wrong) return html`<div class="card"><${Skeleton} rows=${1} /></div>`;
  if (!about) return html`<${CodeField} look=${look} wrong=${wrong} busy=${busy} />`;
  const already = html`<details>
    <summary>${t('alreadyHere')}</summary>
    <${CodeField} look=${look} busy=${busy} />
  </details>`;
  return html`${about.new && about.kind !== 'first' && already}
    <${NameField} key=${code} ...${{ about, enter, wrong, busy }} />`;
}

// enterAs notes who is signed in by a session.
function enterAs(user, signInBySession) {
  store(sessionKey, JSON.stringify(user));
  signInBySession(user);
}

// useCookie signs in who comes back from a provider with a session, of which the page does not know yet.
function useCookie(possible, signInBySession) {
  useEffect(() => {
    if (!possible || read(providerKey) === null || read(sessionKey) !== null) return;
    fetchJSON(null, '/v1/session/token', { method: 'POST', body: {} }).then(
      ({ user_id: id }) => enterAs({ user_id: id, nickname: '' }, signInBySession),
      () => {},
    );
  }, [possible]);
}

// leaveFor goes to a provider, which sends people back to what they were looking at.
function leaveFor({ path }) {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const screen = location.hash.startsWith(errorHash) ? '' : location.hash;
  const query = new URLSearchParams({ return_to: screen, time_zone: timeZone });
  forget(sessionKey);
  store(providerKey, JSON.stringify({ path, at: Date.now() }));
  location.assign(`${basePath}${path}?${query}`);
}

const errorHash = '#sign-in/error/';

// lastProvider returns that of the list by which somebody has signed in here last, unless that was just now.
function lastProvider(providers) {
  try {
    const { path, at } = JSON.parse(read(providerKey));
    return Date.now() - at > 60_000 ? providers.find((provider) => provider.path === path) : null;
  } catch {
    return null; // it is not the page's
  }
}

// Providers leads to where else people sign in. A session that has ended is renewed there without a question.
function Providers({ providers, path: [route, what, reason], refused }) {
  const last = refused && lastProvider(providers);
  useEffect(() => {
    if (last) leaveFor(last);
  }, [last?.path]);
  const failed = route === 'sign-in' && what === 'error';
  return html`${failed && html`<p class="wrong" role="alert">${t(`provider_${reason}`)}</p>`}
    <div class="card providers">
      ${providers.map(
        (
          provider,
        ) => html`<button key=${provider.path} class="button strong" onClick=${() => leaveFor(provider)}>
          ${t('signInWith', { name: stripBidi(provider.title) })}
        </button>`,
      )}
    </div>`;
}

// SignIn leads to the app's login, or asks for a code. The form for a token is for those who try the service
// without an app.
export function SignIn({ signIn, signInBySession, refused, onLocale, path }) {
  const [{ data, error }] = useFetch(null, codes === undefined ? null : '/v1/sign-in');
  const command = html`<code>${tokenCommand('9')}</code>`;
  const wrong = refused && t('badToken');
  // People of an app sign in there, but for codes, and for invitations that make new people.
  const given = codeIn(path);
  const byCode =
    data?.codes && (!login || (given && (!given.invitation || data.join === 'invited')));
  const byLogin = login && (!byCode || given.invitation);
  const providers = data?.providers ?? [];
  useCookie(providers.length > 0 && !refused && path[0] !== 'sign-in', signInBySession);
  const form = html`<${TokenForm}
    label=${t('token')}
    hint=${tRich('tokenHint', { command })}
    wrong=${!login && !byCode && wrong}
    action=${t('showRanking')}
    signIn=${signIn}
  />`;
  const developers = html`<details>
    <summary>${t('forDevelopers')}</summary>
    ${form}
  </details>`;
  const lost =
    refused && html`<p class="wrong" role="alert">${t(byCode ? 'signedOut' : 'badToken')}</p>`;
  const intro = byCode ? 'welcome' : (intros[path[0]] ?? 'welcome');
  return html`<${Entrance}
    title="Stepboard"
    intro=${t(intro)}
    link=${html`<a class="docs" href="docs">${t('docs')}</a>`}
    onLocale=${onLocale}
  >
    ${(login || byCode) && lost}
    ${providers.length > 0 && html`<${Providers} ...${{ providers, path, refused }} />`}
    ${byCode && html`<${CodeSignIn} ...${{ path, signInBySession }} join=${data.join} />`}
    ${byLogin && html`<a class="button strong" href=${loginAddress()}>${t('signIn')}</a>`}
    ${login || byCode ? developers : (codes === undefined || data || error) && form}
  <//>`;
}

// Offer asks whether a token that an app hands over may replace who is signed in.
export function Offer({ login, offer, onLocale }) {
  const name = stripBidi(login.user.nickname || login.user.user_id);
  return html`<${Entrance} title="Stepboard" onLocale=${onLocale}>
    <div class="card">
      <p>${t('offer', { name, id: offer.user.user_id })}</p>
      <div class="buttons">
        <button class="button strong" onClick=${offer.stay}>${t('offerStay', { name })}</button>
        <button class="button" onClick=${offer.accept}>${t('offerAccept')}</button>
      </div>
    </div>
  <//>`;
}
