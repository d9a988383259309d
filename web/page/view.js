// How the page is written: Preact, with markup in tagged templates.
import { h } from './vendor/preact.js';
import htm from './vendor/htm.js';

export { Component, render } from './vendor/preact.js';
export {
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from './vendor/hooks.js';
export const html = htm.bind(h);
