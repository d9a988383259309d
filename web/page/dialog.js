// Dialogs: what one can do with a person, and questions before what can't be undone. Also
// what saves files.
import { fetchJSON } from './data.js';
import { t } from './i18n.js';
import { html, useLayoutEffect, useRef, useState } from './view.js';

// Dialog shows children above the screen until it is closed: by Escape, or by the
// function close, which children is called with. One that may be above another has an id of its own.
export function Dialog({ id = 'dialog', title, onClose, children }) {
  const dialog = useRef(null);
  // An effect of the content, which may set the focus, comes after this.
  useLayoutEffect(() => {
    dialog.current.showModal();
  }, []);
  return html`<dialog ref=${dialog} onClose=${onClose} aria-labelledby=${`${id}-title`}>
    <h2 id=${`${id}-title`}>${title}</h2>
    ${children(() => dialog.current.close())}
  </dialog>`;
}

// useDialog returns [dialog, open]: the dialog of that name of a module, which load fetches once open is called. It
// gets the props.
export function useDialog(load, name, props) {
  const [module, setModule] = useState(null);
  const open = () => {
    load().then(setModule, () => props.notify(t('offlineTitle')));
  };
  const onClose = () => setModule(null);
  return [module && html`<${module[name]} ...${props} onClose=${onClose} />`, open];
}

// Question is the content of a dialog that asks before something is done.
export function Question({ hint, keep, action, busy, close, onConfirm }) {
  return html`<p>${hint}</p>
    <div class="buttons">
      <button class="button" onClick=${close}>${keep}</button>
      <button class="button danger" disabled=${busy} onClick=${onConfirm}>${action}</button>
    </div>`;
}

// save lets the browser download a file.
export function save(file) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = file.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000); // the browser reads it meanwhile
}

export const exportName = 'stepboard-export.json';

// useExport returns {busy, error, download}; download saves the JSON of a path, and calls onSaved.
export function useExport(client, path, onSaved) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const download = async () => {
    setBusy(true);
    setError(null);
    try {
      // A document that was cut off is no JSON, and becomes an error here.
      const text = JSON.stringify(await fetchJSON(client, path), null, 2);
      save(new File([text], exportName, { type: 'application/json' }));
      onSaved();
    } catch (cause) {
      setError(cause);
    }
    setBusy(false);
  };
  return { busy, error, download };
}
