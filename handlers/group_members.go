package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/people/groups"
)

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
