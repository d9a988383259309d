// The reference of the API: a page of its description.
import { html, render, useEffect, useState } from '../page/view.js';
import { commandOf, describe, sample } from './examples.js';

// Inline markup of a description: code, strong, emphasised.
const markup = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*/g;

function inline(text) {
  const parts = [];
  let end = 0;
  for (const { 0: all, 1: code, 2: strong, 3: emphasised, index } of text.matchAll(markup)) {
    parts.push(text.slice(end, index));
    if (code) parts.push(html`<code>${code}</code>`);
    else parts.push(strong ? html`<strong>${strong}</strong>` : html`<em>${emphasised}</em>`);
    end = index + all.length;
  }
  return [...parts, text.slice(end)];
}

// Text shows a description, paragraph by paragraph.
const Text = ({ text = '' }) =>
  text.split('\n\n').map((paragraph) => html`<p key=${paragraph}>${inline(paragraph)}</p>`);

// follow returns the schema that a schema refers to, or the first of its choices; null is none.
function follow(spec, schema) {
  const { $ref: ref, oneOf } = schema ?? {};
  if (ref) return spec.components.schemas[ref.split('/').pop()];
  const choices = oneOf?.filter(({ type }) => type !== 'null') ?? [];
  return choices.length === 1 ? follow(spec, choices[0]) : schema;
}

// rangeOf says which values a schema allows.
function rangeOf({ minimum, maximum, minLength, maxLength, minItems, maxItems }, isList) {
  const [low, high] = isList ? [minItems, maxItems] : [minimum ?? minLength, maximum ?? maxLength];
  const unit = isList ? ' items' : maxLength && ' characters';
  if (low === undefined && high === undefined) return '';
  if (high === undefined) return `${low} or more${unit ?? ''}`;
  return `${low === undefined ? 'at most ' : `${low} to `}${high}${unit ?? ''}`;
}

// typeOf says of what type a schema is, such as "integer, 1 to 200".
function typeOf(spec, schema) {
  const target = follow(spec, schema) ?? {};
  if (target.oneOf) return target.oneOf.map((one) => typeOf(spec, one)).join(' or ');
  const types = [target.type ?? 'object'].flat();
  const isNullable = types.includes('null') || schema.oneOf?.some(({ type }) => type === 'null');
  const [type] = types;
  const isList = type === 'array';
  const named = isList ? `list of ${typeOf(spec, target.items)}` : type;
  return [
    target.format && type === 'string' ? target.format : named,
    target.enum?.length <= 12 && target.enum.join(' | '),
    rangeOf(target, isList),
    target.default !== undefined && `${target.default} if left out`,
    isNullable && 'or null',
  ]
    .filter(Boolean)
    .join(', ');
}

// Field is a parameter, or a property of an object with those below it.
function Field({ spec, name, schema, about, required, where }) {
  const target = follow(spec, schema);
  const below = target?.items ? follow(spec, target.items) : target;
  return html`<li>
    <p>
      <code>${name}</code>${' '}
      <span class="label">${[where, typeOf(spec, schema), required && 'required'].filter(Boolean).join(' · ')}</span>
    </p>
    <${Text} text=${about} />
    <${Properties} spec=${spec} schema=${below} />
  </li>`;
}

// Properties lists the properties of an object.
function Properties({ spec, schema }) {
  const properties = Object.entries(schema?.properties ?? {});
  if (properties.length === 0) return null;
  const field = ([name, below]) => html`<${Field}
    key=${name}
    ...${{ spec, name, schema: below }}
    about=${below.description ?? follow(spec, below)?.description}
    required=${schema.required?.includes(name)}
  />`;
  return html`<ul class="fields">
    ${properties.map(field)}
  </ul>`;
}

const Example = ({ spec, schema }) =>
  html`<pre><code>${JSON.stringify(sample(spec, schema), null, 2)}</code></pre>`;

// Content is the body of a request or of an answer: examples, and the fields.
function Content({ spec, content }) {
  return Object.entries(content ?? {}).map(([type, { schema, example }]) => {
    if (type !== 'application/json') {
      return html`<p class="label">${type}</p>
        <pre><code>${example}</code></pre>`;
    }
    const choices = schema.oneOf ?? [schema];
    return choices.map(
      (one, i) => html`
        ${i > 0 && html`<p>or</p>`}
        <${Example} spec=${spec} schema=${one} />
        <${Properties} spec=${spec} schema=${follow(spec, one)} />
      `,
    );
  });
}

// Answers shows the answers of a call. Statuses of one content are shown once.
function Answers({ spec, responses }) {
  const all = Object.entries(responses);
  const good = all.filter(([status]) => status < 300);
  const bad = all
    .filter(([status]) => status >= 300)
    .map(([status, { $ref: ref, ...own }]) => [
      status,
      ref ? spec.components.responses[ref.split('/').pop()] : own,
    ]);
  return html`<h4>Answer ${good.map(([status]) => status).join(' or ')}</h4>
    <${Text} text=${good[0]?.[1].description} />
    <${Content} spec=${spec} content=${good[0]?.[1].content} />
    <h4>Errors</h4>
    <ul class="errors">
      ${bad.map(([status, { description }]) => html`<li key=${status}><code>${status}</code> ${description}</li>`)}
    </ul>`;
}

function Details({ spec, call }) {
  const { parameters = [], requestBody, responses, description, operationId } = call.operation;
  const parameter = ({ name, in: where, schema, description: about, required }) =>
    html`<${Field} key=${name} ...${{ spec, name, where, schema, about, required }} />`;
  return html`<div class="details">
    <${Text} text=${description} />
    <p><a class="link" href=${`#${operationId}`}>Link to ${operationId}</a></p>
    <pre class="command"><code>${commandOf(spec, call)}</code></pre>
    ${
      parameters.length > 0 &&
      html`<h4>Parameters</h4>
        <ul class="fields">
          ${parameters.map(parameter)}
        </ul>`
    }
    ${
      requestBody &&
      html`<h4>Body</h4>
        <${Content} spec=${spec} content=${requestBody.content} />`
    }
    <${Answers} spec=${spec} responses=${responses} />
  </div>`;
}

// Call is a call, whose details are made once it is opened.
function Call({ spec, call, isOpen }) {
  const [opened, setOpened] = useState(isOpen);
  const { path, method, operation } = call;
  useEffect(() => {
    if (isOpen) setOpened(true);
  }, [isOpen]);
  return html`<details
    id=${operation.operationId}
    open=${opened}
    onToggle=${(event) => setOpened(event.currentTarget.open)}
  >
    <summary>
      <h3>
        <span class=${`method ${method}`}>${method.toUpperCase()}</span>${' '}
        <code>${path}</code>${' '}
        <span class="about">${operation.summary}</span>
      </h3>
    </summary>
    ${opened && html`<${Details} spec=${spec} call=${call} />`}
  </details>`;
}

// callsOf returns the calls of a description: {path, method, operation}.
const callsOf = ({ paths }) =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );

// matches reports whether a call has each word of a search.
function matches({ path, method, operation }, search) {
  const text = `${method} ${path} ${operation.operationId} ${operation.summary}`.toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function useHash() {
  const [hash, setHash] = useState(location.hash.slice(1));
  useEffect(() => {
    const change = () => setHash(location.hash.slice(1));
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  return hash;
}

// Intro says what the API is, and how to get a token.
function Intro({ spec, token }) {
  const { title, version, description } = spec.info;
  return html`<h1>${title} API <span class="label">${version}</span></h1>
    <p>
      <a class="link" href="docs/guide">Guide: a ranking screen in ten minutes</a> ·${' '}
      <a class="link" href="openapi.json">openapi.json</a>
    </p>
    <${Text} text=${description} />
    ${
      token &&
      html`<p>The demo’s first user has this token:</p>
        <pre id="token"><code>TOKEN=${token}</code></pre>`
    }`;
}

// Errors describes the body of errors, which all calls share.
function Errors({ spec }) {
  const { Problem: problem, ErrorCode: code } = spec.components?.schemas ?? {};
  if (!problem) return null;
  return html`<section aria-labelledby="errors">
    <h2 id="errors">Errors</h2>
    <${Example} spec=${spec} schema=${problem} />
    <${Properties} spec=${spec} schema=${problem} />
    <p>Codes: ${code.enum.map((one) => [html`<code>${one}</code>`, ' '])}</p>
  </section>`;
}

function Reference({ spec, token }) {
  const [search, setSearch] = useState('');
  const hash = useHash();
  useEffect(() => document.getElementById(hash)?.scrollIntoView(), [hash]);
  const found = callsOf(spec).filter((call) => matches(call, search));
  const groups = (spec.tags ?? []).map(({ name, description }) => ({
    ...{ name, description },
    calls: found.filter(({ operation }) => operation.tags.includes(name)),
  }));
  const shown = groups.filter(({ calls }) => calls.length > 0);
  const group = ({ name, description, calls }) => html`<section
    key=${name}
    aria-labelledby=${name}
    data-group=${name}
  >
    <h2 id=${name}>${name}</h2>
    <${Text} text=${description} />
    ${calls.map(
      (call) =>
        html`<${Call}
          key=${call.operation.operationId}
          ...${{ spec, call }}
          isOpen=${hash === call.operation.operationId}
        />`,
    )}
  </section>`;
  return html`<div class="reference">
    <nav class="groups" aria-label="Groups">
      ${groups.map(({ name }) => html`<a key=${name} href=${`#${name}`}>${name}</a>`)}
      <a href="#errors">Errors</a>
    </nav>
    <main>
      <${Intro} spec=${spec} token=${token} />
      <form role="search" onSubmit=${(event) => event.preventDefault()}>
        <label for="search">Search calls</label>
        <input
          id="search"
          type="search"
          autocomplete="off"
          spellcheck=${false}
          value=${search}
          onInput=${(event) => setSearch(event.target.value.trim())}
        />
        <p class="label" role="status">${found.length} calls</p>
      </form>
      ${shown.map(group)}
      <${Errors} spec=${spec} />
    </main>
  </div>`;
}

const place = document.getElementById('docs');

describe()
  .then((described) => render(html`<${Reference} ...${described} />`, place))
  .catch((problem) => {
    render(html`<main><h1>Stepboard API</h1><p>${problem.message}</p></main>`, place);
  });
