// Actions: what they will do is shown before they are done.
import { fetchJSON } from '../page/data.js';
import { errorText } from '../page/components.js';
import { errorOf, locale, t } from '../page/i18n.js';
import { html, useEffect, useRef, useState } from '../page/view.js';

// actionError returns what to say about a refused action. The service's own words name the
// reason; they are English.
function actionError(error) {
  if (!error.status) return errorText(error);
  return (locale !== 'en' && errorOf(error.code)) || error.message || errorText(error);
}

// Input is a field of an action: {name, options, type, hint, optional}, or {name, component}, which
// also gets the subject and all values.
function Input({ field, value, onChange, error, ...about }) {
  if (field.component) return html`<${field.component} ...${{ value, onChange, ...about }} />`;
  const { name, text = name, options, type = 'text', hint, optional, ...rest } = field;
  const id = `act-${name}`;
  const shared = {
    id,
    required: !optional,
    value,
    onInput: (event) => onChange(event.target.value),
    'aria-describedby': hint && `${id}-hint`,
    'aria-invalid': error || undefined,
  };
  const option = ([key, shown]) => html`<option key=${key} value=${key}>${shown}</option>`;
  return html`<div class="labelled">
    <label for=${id}>${t(text)}</label>
    ${
      options
        ? html`<select ...${shared}>${options().map(option)}</select>`
        : html`<input type=${type} ...${rest} ...${shared} />`
    }
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${t(hint)}</p>`}
  </div>`;
}

const reasonField = (kind) => ({ name: 'reason', maxlength: 500, optional: kind === 'optional' });

// shownFields returns the fields of an action that are asked for with these values.
const shownFields = (action, values) =>
  (action.fields ?? []).filter(({ shown }) => !shown || shown(values));

// requestsOf returns the calls of an action: {path, method, body}, with a label if there are
// several.
const requestsOf = (action, subject, values) => [action.call(subject, values)].flat();

// linesOf returns texts, each once, with how often it was there.
function linesOf(texts) {
  const counts = new Map();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts].map(([text, n]) => (n > 1 ? `${n} × ${text}` : text)).join('\n');
}

// useAction returns {preview, busy, look, act}. look asks what the action would do; act does
// it, and returns whether it has changed something, and whether it is complete. An action whose call has no dry
// run says itself what it would do: foresee(values, subject).
function useAction(client, action, subject, notify) {
  const [preview, setPreview] = useState({});
  const [busy, setBusy] = useState(false);
  const latest = useRef(0);
  const labelled = (label, text) => (label ? `${label}: ${text}` : text);
  const look = async (values) => {
    const turn = ++latest.current;
    const show = (shown) => turn === latest.current && setPreview(shown);
    show({});
    if (!values) return;
    if (action.foresee) {
      show({ text: action.foresee(values, subject) });
      return;
    }
    // A reason is not needed to look, but the calls ask for one.
    const reason = values.reason || (action.reason === 'required' ? '…' : undefined);
    const requests = requestsOf(action, subject, { ...values, reason });
    if (requests.length === 0) show({ error: t(action.none) });
    const texts = [];
    for (const { path, label, ...options } of requests) {
      try {
        // One after the other: a screen shows what few calls would do.
        const answer = await fetchJSON(client, path, { ...options, query: { dry_run: true } });
        texts.push(labelled(label, action.describe(answer, subject)));
      } catch (error) {
        show({ error: labelled(label, actionError(error)), locations: error.locations });
        return;
      }
    }
    if (texts.length > 0) show({ text: linesOf(texts) });
  };
  const act = async (values) => {
    setBusy(true);
    const given = { ...values, reason: values.reason || undefined };
    const requests = requestsOf(action, subject, given);
    const total = { done: 0, failed: 0 };
    let error;
    let calls = 0;
    while (requests.length > 0) {
      const { path, label, ...options } = requests.shift();
      try {
        // The calls depend on each other.
        const answer = await fetchJSON(client, path, options);
        calls += 1;
        total.done += answer?.done ?? 0;
        total.failed += answer?.failed ?? 0;
        const next = action.next?.(answer, subject, given);
        if (next) requests.push(next);
      } catch (problem) {
        error ??= labelled(label, actionError(problem));
      }
    }
    if (error) {
      setPreview({ error });
      setBusy(false);
    } else {
      notify(action.next ? t('doneMany', total) : t('done'));
    }
    return { changed: calls > 0, complete: !error };
  };
  return { preview, busy, look, act };
}

// ActionDialog asks for the fields of an action and a reason, shows what the action will
// do, and does it. onClose is called with whether it was done.
export function ActionDialog({ client, action, subject, onClose, notify }) {
  const dialog = useRef(null);
  const done = useRef(false);
  const [values, setValues] = useState(() => ({ reason: '', ...action.initial?.(subject) }));
  const { preview, busy, look, act } = useAction(client, action, subject, notify);
  const fields = shownFields(action, values);
  useEffect(() => {
    dialog.current.showModal();
    if (!action.fields) look(values);
  }, []);
  const change = (name) => (value) => {
    setValues({ ...values, [name]: value });
    if (name !== 'reason') look(null);
  };
  const submit = async (event) => {
    event.preventDefault();
    if (!preview.text) {
      look(values);
      return;
    }
    const { changed, complete } = await act(values);
    done.current ||= changed;
    if (complete) dialog.current.close();
  };
  const close = () => {
    onClose(done.current);
    // What was acted on may go, and the focus with it.
    if (done.current) document.querySelector('main h1')?.focus();
  };
  const inputs = [...fields, ...(action.reason ? [reasonField(action.reason)] : [])];
  const input = (field) => html`<${Input}
    key=${field.name}
    ...${{ client, subject, values, field }}
    value=${values[field.name] ?? ''}
    onChange=${change(field.name)}
    error=${preview.locations?.includes(`body.${field.name}`)}
  />`;
  const text = preview.text ?? (preview.error || action.fields ? '' : '…');
  return html`<dialog class="act" ref=${dialog} aria-labelledby="act" onClose=${close}>
    <form onSubmit=${submit}>
      <h2 id="act">${t(action.name)}</h2>
      ${action.subject && html`<p><bdi>${action.subject(subject)}</bdi></p>`} ${inputs.map(input)}
      <p class="preview" role="status">${text}</p>
      <p class="wrong" role="alert">${preview.error}</p>
      <div class="buttons">
        <button type="button" class="button" onClick=${() => dialog.current.close()}>
          ${t('cancel')}
        </button>
        ${
          preview.text || !action.fields
            ? html`<button
                key="do"
                class=${`button ${action.danger ? 'danger' : 'strong'}`}
                disabled=${busy || !preview.text}
              >
                ${t(action.name)}
              </button>`
            : html`<button key="look" class="button strong">${t('preview')}</button>`
        }
      </div>
    </form>
  </dialog>`;
}

// useActions returns [button, dialog]: button(action, subject) is a button that opens the
// action's dialog, which must be drawn once. onDone is called when an action was done.
export function useActions(client, notify, onDone) {
  const [doing, setDoing] = useState(null);
  const button = (action, subject, label) => html`<button
    key=${action.name}
    class="button small"
    data-action=${action.name}
    onClick=${() => setDoing({ action, subject })}
  >
    ${label ?? t(action.text ?? action.name)}
  </button>`;
  const close = (changed) => {
    setDoing(null);
    if (changed) onDone();
  };
  const dialog =
    doing && html`<${ActionDialog} ...${{ client, notify, ...doing }} onClose=${close} />`;
  return [button, dialog];
}
