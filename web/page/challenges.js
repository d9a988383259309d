// The form by which the owner of a group starts, changes and ends its challenge.
import { errorText } from './components.js';
import { addDays, addTexts, t } from './i18n.js';
import { challengeName, challengeTitle, monthOf, useToday } from './spans.js';
import { texts } from './translations-challenges.js';
import { html, useEffect, useState } from './view.js';

addTexts(texts);

// presetsOf returns the challenges that a form offers on a day.
function presetsOf(today) {
  const saturday = addDays(today, 6 - new Date(`${today}T00:00:00Z`).getUTCDay());
  return [
    { from: today, to: addDays(today, 6) },
    { from: today, to: addDays(today, 13) },
    { from: saturday, to: addDays(saturday, 1) },
    monthOf(today),
  ];
}

const isSame = (a, b) => a.from === b.from && a.to === b.to;

// change(settings, done) stores settings of the group and says so with the text of a key.
export function ChallengeForm({ session, group: { challenge }, change, ...props }) {
  const [today] = useToday(session, props);
  const [chosen, setChosen] = useState(null);
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  useEffect(() => setChosen(null), [challenge?.from, challenge?.to]);
  const current = challenge && !(today > challenge.to) ? challenge : null;
  const presets = today ? presetsOf(today) : [];
  const days = chosen ?? current ?? presets[0] ?? { from: '', to: '' };
  const choose = (wanted) => {
    setChosen(wanted);
    setError('');
  };
  const store = async (wanted, done) => {
    setBusy(true);
    setError('');
    try {
      await change({ challenge: wanted }, done);
    } catch (cause) {
      setError(cause.code === 'validation_failed' ? t('challengeError') : errorText(cause));
    }
    setBusy(false);
  };
  const submit = (event) => {
    event.preventDefault();
    if (days.from && days.to) store(days, 'challengeSet');
    else setError(t('challengeError'));
  };
  const preset = (wanted) => html`<button
    key=${`${wanted.from} ${wanted.to}`}
    class="chip"
    type="button"
    aria-pressed=${isSame(wanted, days) ? 'true' : 'false'}
    onClick=${() => choose(wanted)}
  >
    ${challengeName(wanted)}
  </button>`;
  const field = (key) => html`<div class="labelled">
    <label for=${`challenge-${key}`}>${t(`challenge_${key}`)}</label>
    <input
      id=${`challenge-${key}`}
      type="date"
      value=${days[key]}
      onInput=${(event) => choose({ ...days, [key]: event.target.value })}
      aria-invalid=${error ? 'true' : undefined}
      aria-describedby="challenge-wrong"
    />
  </div>`;
  const end = html`<button
    class="button"
    type="button"
    disabled=${busy}
    onClick=${() => store(undefined, 'challengeEnded')}
  >
    ${t('challengeEnd')}
  </button>`;
  return html`<form class="ask card" onSubmit=${submit} novalidate aria-labelledby="challenge">
    <h2 id="challenge">${current ? challengeTitle(current) : t('challenge')}</h2>
    <p class="hint">${t('challengeHint')}</p>
    <div class="chips" role="group" aria-label=${t('challengePresets')}>${presets.map(preset)}</div>
    <div class="field">
      ${field('from')} ${field('to')}
      <button class="button strong" disabled=${busy}>${t(current ? 'save' : 'start')}</button>
      ${challenge && end}
    </div>
    <p id="challenge-wrong" class="wrong" role="alert">${error}</p>
  </form>`;
}
