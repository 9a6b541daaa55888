package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"muster/internal/redact"
)

// everyday are lines of settings, logs and tables as tills have them: no word of them is a secret.
func everyday() []string {
	return []string{
		"2026-09-17 07:30:00 INFO 收银员 1001 登录成功", "2026-09-17 07:30:01 WARN 密码错误，剩余 2 次", "2026-09-17 08:00:00 ERROR 密码为空，请重新输入",
		"密码是必填项", "密码为8位数字", "密码是否正确？", "密码是SHA256加密的", "密码为 AES256 加密存储", "请输入密码：", "密码【必填】", "密码[必填]",
		"口令长度：6-20", "验证码已发送", "令牌已过期，请重新登录", "密钥文件不存在", "提示：忘记密码请联系店长", "修改密码成功 工号=1001",
		"小票打印 单号=XS20260917000123 金额=35.50", "交易类型=消费 卡号=622202******0123 参考号=091712345678", "支付方式，微信；金额，12.80；找零，0.00",
		"商品编码：6901234567892　品名：可口可乐　单价：3.00", "＊＊欢迎光临＊＊　ＴＥＬ：021-12345678", "会员等级＝金卡　积分＝1200", "门店＝上海南京路　编号＝０２１",
		"GET /api/items?key=name&page=2 200 12ms", "GET /cache?key=order-20260917-00012345 200", "GET /pos/v1/sku?key=6901234567892&sign=1 200",
		"POST https://pay.example.com/notify?out_trade_no=XS20260917000123%3D1 200", "redirect=%2Fhome%3Ftab%3Ddaily 302",
		"insert into sales (store_id, sku, qty) values ('S01', '6901234567892', 2)", "INSERT INTO audit(user, action) VALUES ('a', 'password changed')",
		"user,action,result\n1001,password,ok", "sku,name,price\n690,可乐,3.00\n691,雪碧,3.00", "| 门店 | 状态 |\n|---|---|\n| S01 | 正常 |",
		"passwordRequired=true\n", "tokenTimeout=30\n", "password=\nhost=10.0.0.5\nport=3306", "DB_PASSWORD=\nREDIS_HOST=\nDB_HOST=x", "password:\nhost: 10.0.0.5", "password=\n[printer]\nport=COM3",
		"pin=\nprinter.name=EPSON TM-T82", "2026-09-17 07:30:00 INFO password:\n2026-09-17 07:30:01 INFO login ok",
		"the terminal is identified by T-001", "user identified by badge 1001", "net user growth increased this week", "mosquitto_sub -h 10.0.0.5 -p 1883 -t store/#",
		"redis-cli -h 10.0.0.5 -p 6379 ping", "ssh -p 22 pos@10.0.0.5", "unzip -o update.zip -d C:\\pos", "sqlcmd -S . -E -Q \"select 1\"",
		"sqlplus /nolog", "card exp 12/26", "exp a/b", "imp results/today", "password is required", "token is invalid", "password reset by admin",
		"login(\"password\")", "getPassword(\"id\")", "  for index, token, value in tokens:\n    x, y, z", "| Server | Token |\n| Agent | Access Token |",
		"INSERT INTO t (token, id) VALUES (?, ?)", "in ('a', 'token', 'openid')", "exclusive(\"token\", \"json\")", "works are identified as \"derived from it\"", "mosquitto_sub -u chen -P \"$(cat chen.pw)\" -t a", "copied set-encrypt-key.asm s390x/m1s2a3_x2/aes256-2b1c.asm ok",
		"columns: [\"id\", \"name\"]", "log.info(\"password changed\", \"user\")", "if (password == null) {",
		`{"kty":"meal","n":1}`, `{"d":"2026-09-17","p":"35.50"}`, "C:\\users\\pos\\update\\u1.log", "path=D:\\u0001\\data", "价格&lt;100&gt;50 折扣&#37;",
		"扫码枪 key down=F8", "热键：F2=会员 F3=折扣", "license checked, 30 days left", "heartbeat <<EOT", "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIU",
		"signature verified for update 2.4.1", "sign=√ 已签名", "会员 token 数：12", "keyboard layout&#58; zh-CN", "温度 25\u00b0C 打印机 正常", "流水号\u00a0=\u00a0000123",
	}
}

func TestEverydayLinesOfTillsStayUntouched(t *testing.T) {
	t.Parallel()
	lines := everyday()
	for _, in := range append(lines, strings.Join(lines, "\n\n")) {
		if got, count := redact.Text(in); got != in || count != 0 {
			t.Errorf("%q became %q (%d)", in, got, count)
		}
		doc, err := json.Marshal(map[string]string{"text": in})
		if err != nil {
			t.Fatal(err)
		}
		if got, count := redact.JSON(doc); string(got) != string(doc) || count != 0 {
			t.Errorf("%s became %s (%d)", doc, got, count)
		}
	}
}
