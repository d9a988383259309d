-- People of WeChat's mini programs, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin

-- Who a person in a mini program is. unionid is empty without an account of the open platform. session_key is
-- encrypted as package services/operations/wechat says; failures is how many documents it could not decrypt.
CREATE TABLE wechat_users (
    appid       text     NOT NULL,
    openid      text     NOT NULL,
    unionid     text     NOT NULL,
    user_id     bigint   NOT NULL,
    session_key blob     NOT NULL,
    failures    integer  NOT NULL CHECK (failures >= 0),
    created_at  datetime NOT NULL,
    PRIMARY KEY (appid, openid)
);
CREATE INDEX wechat_users_user ON wechat_users (user_id);
CREATE INDEX wechat_users_union ON wechat_users (unionid) WHERE unionid <> '';

-- Keyed hashes of the openids and the unionid of users who were erased, by which what others have decided about
-- them is found when they return. They stay as long as id_hash in erasures.
CREATE TABLE wechat_erased (
    id_hash blob   NOT NULL,
    row_id  bigint NOT NULL,
    PRIMARY KEY (id_hash, row_id)
);
CREATE INDEX wechat_erased_row ON wechat_erased (row_id);
-- +goose StatementEnd
