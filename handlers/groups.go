package handlers

import (
	"context"
	"net/http"

	"stepboard/models"
	"stepboard/services/people/groups"
)

// GroupService lists a user's groups, and makes, changes and ends groups.
type GroupService interface {
	List(ctx context.Context, user models.UserID) ([]groups.Group, error)
	Create(ctx context.Context, owner models.UserID, settings groups.Settings) (groups.Group, error)
	Change(ctx context.Context, user models.UserID, id models.GroupID, settings groups.Settings) (groups.Group, error)
	Renew(ctx context.Context, user models.UserID, id models.GroupID) (groups.Group, error)
	Delete(ctx context.Context, user models.UserID, id models.GroupID) error
}

// GroupServices is what serves groups, their members and invitations to them.
type GroupServices interface {
	GroupService
	MemberService
	GroupInviteService
}

// groupHandlers serves groups, their members and invitations to them.
type groupHandlers struct {
	service GroupServices
	cursors CursorSealer
}

// GroupPath names a group in the path.
type GroupPath struct {
	Group models.GroupID `path:"group" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9_-]+$" doc:"The group" example:"kx7wq2m5a4tdzbnc"`
}

// GroupInput names a group and the user that the request acts for.
type GroupInput struct {
	GroupPath
	OnBehalf
}

// Group is a group as its members see it.
type Group struct {
	GroupID    models.GroupID   `json:"group_id" doc:"The group" example:"kx7wq2m5a4tdzbnc"`
	Name       string           `json:"name" doc:"Empty if a backend has made the group without a name" example:"Family"`
	OwnerID    *models.UserID   `json:"owner_id" nullable:"true" doc:"Who may change the group; null if a backend sets its members"`
	InviteCode *string          `json:"invite_code" nullable:"true" doc:"Whoever has this code may join; null if a backend sets the members" example:"KX7WQ2M5A4TDZBNC"`
	Members    int              `json:"members" doc:"How many members the group has" example:"12"`
	Challenge  *challengeDays   `json:"challenge" doc:"The group's challenge, which may be over, or not have begun; null without one"`
	CreatedAt  models.Timestamp `json:"created_at" format:"date-time" doc:"When the group was made" example:"2026-11-20T13:00:00.123Z"`
}

// challengeDays are the first and the last day of a group's challenge.
type challengeDays struct {
	From string `json:"from" format:"date" doc:"The first day" example:"2026-11-16"`
	To   string `json:"to" format:"date" doc:"The last day, at most 30 days later" example:"2026-11-29"`
}

func groupOf(g groups.Group) Group {
	answer := Group{
		GroupID: g.ID, Name: g.Name, OwnerID: unlessZero(g.Owner), InviteCode: g.InviteCode, Members: g.Members, CreatedAt: models.TimestampOf(g.CreatedAt),
	}
	if g.ChallengeFrom != nil {
		answer.Challenge = &challengeDays{From: g.ChallengeFrom.String(), To: g.ChallengeTo.String()}
	}
	return answer
}

// groupOutput returns what a handler returns for a group.
func groupOutput(g groups.Group, err error) (*output[Group], error) {
	return outputOf(groupOf(g), err)
}

var listGroups = operation{
	id:          "listGroups",
	summary:     "List one's groups",
	description: "All groups that the user is a member of, at most 50, the one joined last first.",
}

// Groups lists groups.
type Groups struct {
	Groups []Group `json:"groups" nullable:"false" doc:"The one joined last first"`
}

func (h *groupHandlers) list(ctx context.Context, user models.UserID, _ *OnBehalf) (*output[Groups], error) {
	list, err := h.service.List(ctx, user)
	return outputOf(Groups{answersOf(list, groupOf)}, err)
}

var createGroup = operation{
	id:      "createGroup",
	summary: "Make a group",
	description: "Make a group, such as `{\"name\":\"Family\"}`, with the user as its owner and only member. Others join by its invite_code. " +
		"A user is in at most 50 groups. A call that is repeated makes another group.",
	status: http.StatusCreated,
	errors: []models.Code{models.CodeGroupLimit},
}

// newGroup holds the settings of a group that its owner decides.
type newGroup struct {
	Name      string        `json:"name" doc:"1 to 64 characters, under the rules of nicknames" example:"Family"`
	Challenge *newChallenge `json:"challenge,omitempty" doc:"The days of a challenge; a group without this has none"`
}

// newChallenge is challengeDays in a request. It has a schema of its own, because a request takes
// no other fields.
type newChallenge challengeDays

// settings returns the body as the service takes it.
func (b *newGroup) settings() groups.Settings {
	settings := groups.Settings{Name: b.Name}
	if b.Challenge != nil {
		settings.Challenge = &groups.Challenge{From: dateOf(b.Challenge.From), To: dateOf(b.Challenge.To)}
	}
	return settings
}

func (h *groupHandlers) create(ctx context.Context, user models.UserID, in *ownInput[newGroup]) (*output[Group], error) {
	return groupOutput(h.service.Create(ctx, user, in.Body.settings()))
}

var changeGroup = operation{
	id:      "changeGroup",
	summary: "Change a group",
	description: "Give a group another name or another challenge, such as " +
		"`{\"name\":\"Family\",\"challenge\":{\"from\":\"2026-11-16\",\"to\":\"2026-11-29\"}}`. Both are replaced: without challenge, the group has none. " +
		"A challenge has at most 31 days; its ranking is that of the group with the same from and to. " +
		"Only the owner may change a group, others get 403.",
	errors: []models.Code{models.CodeNotFound},
}

type changeGroupInput struct {
	GroupInput
	Body newGroup
}

func (h *groupHandlers) change(ctx context.Context, user models.UserID, in *changeGroupInput) (*output[Group], error) {
	return groupOutput(h.service.Change(ctx, user, in.Group, in.Body.settings()))
}

var renewInvite = operation{
	id:          "renewInvite",
	summary:     "Renew an invite code",
	description: "Give a group another invite code; nobody can join by the old one any more. Only the owner may, others get 403.",
	errors:      []models.Code{models.CodeNotFound},
}

func (h *groupHandlers) renew(ctx context.Context, user models.UserID, in *GroupInput) (*output[Group], error) {
	return groupOutput(h.service.Renew(ctx, user, in.Group))
}

var deleteGroup = operation{
	id:          "deleteGroup",
	summary:     "End a group",
	description: "End a group for all of its members. Only its owner may, other members get 403. For anybody else nothing changes.",
}

func (h *groupHandlers) end(ctx context.Context, user models.UserID, in *GroupInput) (*struct{}, error) {
	return nil, h.service.Delete(ctx, user, in.Group)
}

// MemberService keeps the members of groups.
type MemberService interface {
	Get(ctx context.Context, user models.UserID, id models.GroupID) (groups.Group, error)
	Members(ctx context.Context, group models.GroupRow, after models.RowID, limit int) ([]groups.Member, error)
	Remove(ctx context.Context, user models.UserID, id models.GroupID, member models.UserID) error
	Replace(ctx context.Context, id models.GroupID, r groups.Replacement) error
}

var getGroup = operation{
	id:      "getGroup",
	summary: "Look at a group",
	description: "A group that the user is in, and one page of its members: `?limit=50`, then `&cursor=` with the page's next_cursor. " +
		"Every member sees the invite code.",
	errors: []models.Code{models.CodeNotFound},
}

type showGroupInput struct {
	GroupPath
	ListInput
}

type member struct {
	UserID    models.UserID    `json:"user_id" doc:"The member" example:"1001"`
	Nickname  string           `json:"nickname" doc:"Empty if the user has set none"`
	AvatarURL string           `json:"avatar_url" doc:"Empty if the user has set none"`
	JoinedAt  models.Timestamp `json:"joined_at" format:"date-time" doc:"When the user became a member" example:"2026-11-20T13:00:00.123Z"`
}

func memberOf(m groups.Member) member {
	return member{UserID: m.User, Nickname: m.Nickname, AvatarURL: m.AvatarURL, JoinedAt: models.TimestampOf(m.JoinedAt)}
}

// groupPage is a group with a page of its members.
type groupPage struct {
	Group
	MemberList []member `json:"member_list" nullable:"false" doc:"This page, in an order that does not change"`
	NextCursor *string  `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *groupHandlers) show(ctx context.Context, user models.UserID, in *showGroupInput) (*output[groupPage], error) {
	var group groups.Group
	members, next, err := pageOf(ctx, h.cursors, in.Paging, memberOf, func(after models.Cursor, limit int) (list []groups.Member, err error) {
		if group, err = h.service.Get(ctx, user, in.Group); err != nil {
			return nil, err
		}
		return h.service.Members(ctx, group.Row, after.Row, limit)
	}, "members "+string(in.Group), string(user))
	return outputOf(groupPage{Group: groupOf(group), MemberList: members, NextCursor: next}, err)
}

var removeMember = operation{
	id:      "removeMember",
	summary: "Leave a group, or remove a member",
	description: "Leave a group with one's own id as {id}, or remove somebody as its owner. If {id} is not a member, nothing changes. " +
		"After an owner has left, the member who joined first is the owner; a group without members ends. " +
		"After a removal the group has another invite code.",
	errors: []models.Code{models.CodeNotFound},
}

type removeMemberInput struct {
	GroupPath
	OtherInput
}

func (h *groupHandlers) remove(ctx context.Context, user models.UserID, in *removeMemberInput) (*struct{}, error) {
	return nil, h.service.Remove(ctx, user, in.Group, in.ID)
}

var replaceMembers = operation{
	id:      "replaceMembers",
	summary: "Replace a group's members",
	description: "For apps that keep groups elsewhere: `{\"member_ids\":[\"1001\",\"1002\"]}` makes these the members of the group {group}, and nobody else. " +
		"A group that does not exist is created; it has no owner and no invite code. An empty list ends the group. " +
		"A group that a user has made is 403.",
	bodies: []any{memberIDs{}},
	list:   true,
	errors: []models.Code{models.CodeGroupFull, models.CodeGroupLimit},
}

// memberIDs is the body of replaceMembers.
type memberIDs struct {
	MemberIDs []models.UserID `json:"member_ids" nullable:"false" maxItems:"500" doc:"Exactly these become the members; none of them twice" example:"[\"1001\",\"1002\"]"`
	Name      *string         `json:"name,omitempty" doc:"The group's name, under the rules of nicknames; if it is left out, the name stays as it is"`
}

type membersInput struct {
	GroupPath
	RawBody []byte
}

type memberCount struct {
	GroupID models.GroupID `json:"group_id" doc:"The group"`
	Members int            `json:"members" doc:"How many members the group has now"`
}

func (h *groupHandlers) replace(ctx context.Context, in *membersInput) (*output[memberCount], error) {
	var body memberIDs
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	if err := checkUsers("body.member_ids", body.MemberIDs); err != nil {
		return nil, err
	}
	err := h.service.Replace(ctx, in.Group, groups.Replacement{Members: body.MemberIDs, Name: body.Name})
	return outputOf(memberCount{GroupID: in.Group, Members: len(body.MemberIDs)}, err)
}

// GroupInviteService lets users join groups by invite codes.
type GroupInviteService interface {
	Invitation(ctx context.Context, user models.UserID, code string) (groups.Invitation, error)
	Join(ctx context.Context, user models.UserID, code string) (groups.Group, error)
}

var getGroupInvitation = operation{
	id:          "getGroupInvitation",
	summary:     "Show which group invites",
	description: "Show what an invite code of a group is for, before anything changes. Tries are limited as in POST /v1/groups/join.",
	errors:      []models.Code{models.CodeNotFound},
}

// GroupCodeInput names an invite code of a group in the path.
type GroupCodeInput struct {
	Code string `path:"code" minLength:"1" maxLength:"64" pattern:"^[^\\x00-\\x1f\\x7f]*$" doc:"The invite code" example:"KX7WQ2M5A4TDZBNC"`
	OnBehalf
}

type groupInvitation struct {
	GroupID   models.GroupID `json:"group_id" doc:"The group" example:"mfrggzdfmztwq2lk"`
	Name      string         `json:"name" doc:"Its name" example:"Family"`
	Members   int            `json:"members" doc:"How many members it has"`
	Member    bool           `json:"member" doc:"Whether the user is one of them"`
	OwnerID   models.UserID  `json:"owner_id" doc:"Its owner" example:"1001"`
	Nickname  string         `json:"nickname" doc:"The owner's; empty if the owner has set none"`
	AvatarURL string         `json:"avatar_url" doc:"The owner's; empty if the owner has set none"`
}

func (h *groupHandlers) invitation(ctx context.Context, user models.UserID, in *GroupCodeInput) (*output[groupInvitation], error) {
	i, err := h.service.Invitation(ctx, user, in.Code)
	return outputOf(groupInvitation(i), err)
}

var joinGroup = operation{
	id:      "joinGroup",
	summary: "Join a group",
	description: "Join the group with an invite code, such as `{\"invite_code\":\"KX7WQ2M5A4TDZBNC\"}`. Lower case and spaces around it are accepted. " +
		"A member who joins again gets the same answer. A group has at most 500 members, and a user is in at most 50 groups. " +
		"A user may try ten codes a minute (setting limits.joins_per_minute).",
	errors: []models.Code{models.CodeNotFound, models.CodeGroupFull, models.CodeGroupLimit},
}

type inviteCode struct {
	InviteCode string `json:"invite_code" minLength:"1" maxLength:"64" doc:"The invite code" example:"KX7WQ2M5A4TDZBNC"`
}

func (h *groupHandlers) join(ctx context.Context, user models.UserID, in *ownInput[inviteCode]) (*output[Group], error) {
	return groupOutput(h.service.Join(ctx, user, in.Body.InviteCode))
}
