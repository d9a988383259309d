// Pictures of the screens, for people to look at: SCREENSHOTS names a folder. Without it there are none.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { program } from './phone.mjs';
import { cssOf, htmlOf } from './wxml.mjs';

const folder = process.env.SCREENSHOTS;

// What WeChat's own style sheet says of the elements that the pages use, and its bars.
const BASE = `
body { margin: 0; padding: 44px 0 56px; font-family: 'PingFang SC', 'Noto Sans CJK SC', sans-serif; }
button { display: block; box-sizing: border-box; border: 0; font-family: inherit; text-align: center; }
input { border: 0; padding: 0; background: none; font-family: inherit; outline: 0; }
div.choices { overflow-x: auto; }
.top, .tabs { position: fixed; left: 0; right: 0; text-align: center; }
.top { top: 0; background: #ededed; font-weight: 600; font-size: 17px; line-height: 44px; }
.tabs { bottom: 0; display: flex; background: #f7f7f7; border-top: 1px solid #ddd; line-height: 56px; font-size: 14px; }
.tabs span { flex: 1; color: #7f7f7f; }
.tabs .front { color: #06974a; }`;

/** picture takes a picture of the page in front. */
export async function picture(phone, name) {
  if (!folder) return;
  const { path } = phone.page;
  const styles = [join(program, 'app.wxss'), join(program, `${path}.wxss`)]
    .filter(existsSync)
    .map(cssOf);
  const tabs = phone.tabs
    .map((text) => `<span${text === phone.page.title ? ' class="front"' : ''}>${text}</span>`)
    .join('');
  const html = `<!doctype html><meta charset="utf-8"><style>${BASE}${styles.join('')}</style>
<div class="top">${phone.page.title}</div>${htmlOf(phone.tree())}<div class="tabs">${tabs}</div>`;
  const temporary = mkdtempSync(join(tmpdir(), 'screen-'));
  try {
    writeFileSync(join(temporary, 'page.html'), html);
    const options = [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--hide-scrollbars',
      `--user-data-dir=${temporary}`,
    ];
    const size = ['--window-size=375,812', '--force-device-scale-factor=2'];
    const out = `--screenshot=${join(resolve(folder), `${name}.png`)}`;
    execFileSync('chromium', [...options, ...size, out, join(temporary, 'page.html')], {
      stdio: 'ignore',
      timeout: 60_000,
    });
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}
