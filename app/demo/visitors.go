package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/ledger"
	"stepboard/services/platform/auth"
)

const (
	// tokenTTL is longer than any demo runs.
	tokenTTL = 30 * 24 * time.Hour
	// offeredPeople is how many people the page offers to sign in as.
	offeredPeople = 20
	// maxGift is the largest body of a visitor's gift, in bytes.
	maxGift = 1 << 10
)

// sign returns a token of a user, or of a scope.
func (s *simulation) sign(user models.UserID, scope string) string {
	token, _ := auth.SignToken(s.secret, user, scope, "", "", time.Now(), tokenTTL) // it never fails by a secret
	return token
}

// offerPeople serves the people that a visitor of the page can sign in as, with
// their tokens.
func (s *simulation) offerPeople(c *gin.Context) {
	type choice struct {
		UserID    models.UserID `json:"user_id"`
		Nickname  string        `json:"nickname"`
		AvatarURL string        `json:"avatar_url"`
		Token     string        `json:"token"`
	}
	ids, rows, err := s.present(c, s.ids[:min(len(s.ids), offeredPeople)])
	if err != nil {
		c.AbortWithStatus(http.StatusServiceUnavailable)
		return
	}
	records, err := s.app.Directory.Records(c, rows) // a visitor may have changed them
	if err != nil {
		c.AbortWithStatus(http.StatusServiceUnavailable)
		return
	}
	choices := make([]choice, len(ids))
	for i, id := range ids {
		choices[i] = choice{id, records[i].Nickname, records[i].AvatarURL.String(), s.sign(id, "")}
	}
	c.JSON(http.StatusOK, gin.H{"people": choices})
}

// offerOperator serves the token of the demo's operator, which the console fills in.
func (s *simulation) offerOperator(c *gin.Context) {
	c.JSON(http.StatusOK, gin.H{"token": s.sign(demoOperator, auth.ScopeAdmin)})
}

// giveGift handles a visitor's gift. A demo has no wallets and needs no token.
func (s *simulation) giveGift(c *gin.Context) {
	var body struct {
		UserID models.UserID `json:"user_id"`
	}
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, maxGift)
	if err := c.ShouldBindJSON(&body); err != nil {
		refuseBody(c, err)
		return
	}
	if _, known := s.positions[body.UserID]; !known {
		c.AbortWithStatus(http.StatusNotFound)
		return
	}
	coins := giftCoins[rand.IntN(len(giftCoins))]
	results, err := s.app.Ledger.Add(c, giftsBoard, []ledger.Increment{s.increment(body.UserID, coins)})
	if err != nil || results[0].Err != nil {
		c.AbortWithStatus(http.StatusServiceUnavailable)
		return
	}
	c.JSON(http.StatusOK, gin.H{"coins": coins, "score": results[0].Score})
}

// refuseBody answers a request whose body could not be read.
func refuseBody(c *gin.Context, err error) {
	status := http.StatusBadRequest
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		status = http.StatusRequestEntityTooLarge
	}
	c.AbortWithStatus(status)
}

// onlyHosts returns a handler that refuses requests whose Host is neither an address
// nor localhost nor the host of addr, which is that of --addr. Otherwise a foreign
// page could resolve its own name to this machine and read the demo's tokens, because
// the browser takes both for one site (DNS rebinding).
func onlyHosts(next http.Handler, addr string) http.Handler {
	own, _, _ := net.SplitHostPort(addr) // "" if there is none
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !knownHost(r.Host, own) {
			p := handlers.Refuse(http.StatusMisdirectedRequest, "call the demo at localhost, at an address, or at the host of --addr")
			w.Header().Set("Content-Type", p.ContentType(""))
			w.Header().Set("X-Request-Id", p.RequestID)
			w.WriteHeader(p.Status)
			_ = json.NewEncoder(w).Encode(p) // the client may be gone
			return
		}
		next.ServeHTTP(w, r)
	})
}

// knownHost reports whether a Host header may name this machine; own is the host
// of --addr.
func knownHost(host, own string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") || host != "" && strings.EqualFold(host, own)
}

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
