package handlers

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"stepboard/web"
)

// pages adds the routes for browsers: the page, the console and the API reference.
func pages(engine *gin.Engine, site *web.Site, basePath string) {
	for _, path := range []string{"/", "/worker.js", "/assets/*file", "/console", "/console/", "/docs", "/docs/", "/docs/guide"} {
		engine.GET(path, func(c *gin.Context) { file(c, site) })
	}
	if basePath == "" {
		return
	}
	engine.NoRoute(func(c *gin.Context) {
		if c.Request.URL.Path == basePath { // the addresses in the page are relative to the slash
			redirect(c, basePath+"/")
			return
		}
		notFound(c)
	})
}

// file answers with a file. A document names the assets of its own version of the service, so
// that a new version replaces all of them at once.
func file(c *gin.Context, site *web.Site) {
	path := c.Request.URL.Path
	if path == "/docs/" || path == "/console/" { // the addresses in the files are relative to these without the slash
		redirect(c, ".."+strings.TrimSuffix(path, "/"))
		return
	}
	found, ok := site.Find(path)
	if !ok {
		notFound(c)
		return
	}
	c.Header("Content-Security-Policy", found.Policy)
	c.Header("Cache-Control", found.CacheControl)
	c.Header("Vary", "Accept-Encoding")
	body, suffix := found.Body, `"`
	if found.Gzipped != nil && takesGzip(c.GetHeader("Accept-Encoding")) {
		c.Header("Content-Encoding", "gzip")
		body, suffix = found.Gzipped, `-gz"`
	}
	if found.ETag != "" {
		tag := strings.TrimSuffix(found.ETag, `"`) + suffix
		c.Header("ETag", tag)
		if c.GetHeader("If-None-Match") == tag {
			c.Status(http.StatusNotModified)
			return
		}
	}
	c.Data(http.StatusOK, found.ContentType, body)
}

// takesGzip reports whether an Accept-Encoding header, as browsers and proxies
// write it, accepts gzip. A weight of 0 refuses it.
func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			weight = strings.ReplaceAll(weight, " ", "")
			return weight != "q=0" && !strings.HasPrefix(weight, "q=0.0")
		}
	}
	return false
}

// redirect sends a browser to another address, which may be relative.
func redirect(c *gin.Context, location string) {
	c.Header("Location", location)
	c.Status(http.StatusTemporaryRedirect)
}
