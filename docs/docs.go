// Package docs holds the document that the service shows beside the API reference.
package docs

import _ "embed"

// Guide is the guide for app developers, in Markdown.
//
//go:embed guide.md
var Guide []byte
