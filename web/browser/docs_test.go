package browser

import (
	"fmt"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// tryExamples calls every operation of users that the reference shows, with the token
// and the examples that its forms are filled with, and returns those that fail. Calls
// that undo what others need come last: a block declines a request, and another invite
// code replaces that of the examples. Of those that delete, the longest path comes first,
// so that a group ends after what is below it, and the user is erased at the end.
const tryExamples = `(async () => {
	const spec = ui.specSelectors.specJson().toJS();
	const token = ui.authSelectors.authorized().getIn(['bearer', 'value']);
	const sample = (schema) => {
		if (schema.$ref) return sample(spec.components.schemas[schema.$ref.split('/').pop()]);
		if (schema.oneOf) return sample(schema.oneOf[0]);
		if (schema.examples) return schema.examples[0];
		return Object.fromEntries(Object.entries(schema.properties).map(([name, below]) => [name, sample(below)]));
	};
	const operations = Object.entries(spec.paths).flatMap(([path, methods]) =>
		Object.entries(methods).map(([method, operation]) => ({ path, method, operation })));
	const users = operations.filter(({ operation }) => !['Backends', 'Operators'].includes(operation.tags[0]));
	const when = ({ method, path }) =>
		method === 'delete' ? 1000 - path.length : path.startsWith('/v1/blocked') || path.endsWith('/invite') ? 1 : 0;
	users.sort((a, b) => when(a) - when(b));
	const failed = [];
	for (const { path, method, operation } of users) {
		let address = path;
		const query = new URLSearchParams();
		for (const { name, in: place, example } of operation.parameters ?? []) {
			if (place === 'path') address = address.replace('{' + name + '}', encodeURIComponent(example));
			else if (example !== undefined) query.set(name, example);
		}
		const body = operation.requestBody && JSON.stringify(sample(operation.requestBody.content['application/json'].schema));
		const leaving = new AbortController();
		const response = await fetch(address + '?' + query, {
			method: method.toUpperCase(), body, signal: leaving.signal,
			headers: { Authorization: 'Bearer ' + token, ...(body && { 'Content-Type': 'application/json' }) },
		});
		if (!response.ok) failed.push(operation.operationId + ': ' + (await response.text()));
		leaving.abort();
	}
	return [users.length + ' calls', ...failed];
})()`

// The reference begins with the calls of users and says how to get a token. In the demo
// every example of these calls works as it stands.
func TestDocs(t *testing.T) {
	t.Parallel()
	p := newPage(t, desktop)
	p.open(testenv.Demo(t).URL + "/docs")
	p.until("the reference has a token", "window.ui?.authSelectors.authorized().getIn(['bearer', 'value'])?.length > 0")
	p.until("the calls are there", "document.querySelectorAll('.opblock-tag').length > 0")
	tags := eval[[]string](p, "[...document.querySelectorAll('.opblock-tag')].map((e) => e.dataset.tag)")
	if got := strings.Join(tags, " "); !strings.HasPrefix(got, "Rankings Uploads ") || !strings.HasSuffix(got, " Backends Operators") {
		t.Errorf("the reference shows the groups %s", got)
	}
	if intro := eval[string](p, "document.querySelector('.info .description').innerText"); !strings.Contains(intro, "stepboard token --user") {
		t.Errorf("the introduction does not say how to get a token: %q", intro)
	}
	eval[any](p, tryExamples+".catch((problem) => [String(problem)]).then((outcome) => { window.tried = outcome; })")
	p.until("every example was tried", "window.tried !== undefined")
	tried := eval[[]string](p, "window.tried")
	if len(tried) != 1 || tried[0] == "0 calls" {
		t.Errorf("examples fail: %s", strings.Join(tried, "\n"))
	}
}

// A form of the reference is filled in, and the example of a stream ends with the first ranking. The
// reference has the colours that the visitor prefers, and a link to the guide.
func TestDocsForms(t *testing.T) {
	t.Parallel()
	p := newPage(t, viewport{width: 390, height: 844, dark: true})
	base := testenv.Demo(t).URL
	p.open(base + "/docs")
	p.until("the reference has a token", "window.ui?.authSelectors.authorized().getIn(['bearer', 'value'])?.length > 0")
	const stream = "#operations-Rankings-streamFriendRanking"
	p.click(stream + " .opblock-summary-control")
	p.click(stream + " .try-out__btn")
	p.until("the board is filled in", "document.querySelector('"+stream+" .parameters input')?.value === 'steps'")
	p.click(stream + " .execute")
	p.until("the answer is the first ranking", "(document.querySelector('"+stream+" .live-responses-table')?.innerText ?? '').includes('event: ranking')")
	p.screenshot("docs-390-dark")
	for _, dark := range []bool{true, false} {
		p.emulate(viewport{width: 390, height: 844, dark: dark})
		p.until("the colours follow", fmt.Sprintf("(getComputedStyle(document.documentElement).backgroundColor === 'rgb(28, 32, 34)') === %t", dark))
	}
	p.waitForAnimations()
	p.screenshot("docs-390-light")
	p.click("a[href='docs/guide']")
	p.until("the guide is there", "document.body.innerText.startsWith('# Guide')")
}
