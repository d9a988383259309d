package demo

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
)

// coverPath is where the pictures are that people have as covers, by position.
const coverPath = "/demo/covers/"

// coverOf returns the address of the cover of the person at a position. Every fourth person has none.
func (p *people) coverOf(position int) string {
	if p.base == "" || position%4 == 3 {
		return ""
	}
	return p.base + coverPath + strconv.Itoa(position)
}

// showCover serves a cover.
func (s *simulation) showCover(c *gin.Context) {
	position, err := strconv.Atoi(c.Param("position"))
	if err != nil || position < 0 || position >= len(s.ids) {
		c.AbortWithStatus(http.StatusNotFound)
		return
	}
	c.Header("Content-Security-Policy", "default-src 'none'")
	c.Header("Cache-Control", "max-age=86400")
	c.Data(http.StatusOK, "image/svg+xml", []byte(cover(position)))
}

// cover returns a picture of hills under a sky, another one for each position.
func cover(position int) string {
	const width, height = 720, 240
	hue := position * 137 % 360 // multiples of the golden angle look different
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" preserveAspectRatio="xMidYMid slice">`, width, height)
	fmt.Fprintf(&b, `<linearGradient id="sky" x2="0" y2="1"><stop stop-color="hsl(%d 60%% 45%%)"/>`+
		`<stop offset="1" stop-color="hsl(%d 75%% 78%%)"/></linearGradient>`, hue, (hue+50)%360)
	fmt.Fprintf(&b, `<path fill="url(#sky)" d="M0 0h%dv%dH0z"/>`, width, height)
	fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="30" fill="hsl(48 90%% 82%%)"/>`, 90+position*71%540, 50+position*29%60)
	for layer := range 3 {
		fmt.Fprintf(&b, `<path fill="hsl(%d 40%% %d%%)" d="M0 %d`, (hue+140)%360, 42-11*layer, height)
		for x := 0; x <= width; x += 24 {
			phase := float64(x)/(150-25*float64(layer)) + float64(position*(layer+3))
			y := 130 + 32*float64(layer) - 24*math.Sin(phase) - 9*math.Sin(2.3*phase)
			fmt.Fprintf(&b, "L%d %.0f", x, y)
		}
		fmt.Fprintf(&b, `V%dz"/>`, height)
	}
	b.WriteString(`</svg>`)
	return b.String()
}
