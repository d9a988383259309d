-- Identities of people elsewhere, and sessions that end at a time, as in the Postgres migration of the same number. No
-- other version runs beside this one, so there are no views of the old names.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE wechat_users RENAME TO identities;
ALTER TABLE identities RENAME COLUMN appid TO issuer;
ALTER TABLE identities RENAME COLUMN openid TO subject;
DROP INDEX wechat_users_user;
DROP INDEX wechat_users_union;
CREATE INDEX identities_user ON identities (user_id);
CREATE INDEX identities_union ON identities (unionid) WHERE unionid <> '';
ALTER TABLE wechat_erased RENAME TO identities_erased;
DROP INDEX wechat_erased_row;
CREATE INDEX identities_erased_row ON identities_erased (row_id);
ALTER TABLE sessions ADD COLUMN ends_at datetime;
-- +goose StatementEnd
