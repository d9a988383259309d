package demo

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

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
func (s *simulation) sign(user models.UserID, scope string) (string, error) {
	return auth.SignToken(s.secret, user, scope, "", "", time.Now(), tokenTTL)
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
		token, err := s.sign(id, "")
		if err != nil {
			c.AbortWithStatus(http.StatusInternalServerError)
			return
		}
		choices[i] = choice{id, records[i].Nickname, records[i].AvatarURL.String(), token}
	}
	c.JSON(http.StatusOK, gin.H{"people": choices})
}

// offerOperator serves the token of the demo's operator, which the console fills in.
func (s *simulation) offerOperator(c *gin.Context) {
	token, err := s.sign(demoOperator, auth.ScopeAdmin)
	if err != nil {
		c.AbortWithStatus(http.StatusInternalServerError)
		return
	}
	c.JSON(http.StatusOK, gin.H{"token": token})
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
