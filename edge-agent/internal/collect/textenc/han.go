package textenc

import (
	"sync"
	"unicode/utf8"
)

// common lists characters that fill most of any Chinese text, and those that the logs and settings of a till are full
// of: simplified first, then the traditional forms that differ. It is this project's own list, not a corpus's.
const common = `的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里` +
	`用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意` +
	`无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产` +
	`或新己制身果加西月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平` +
	`系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社` +
	`便空决治展司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边张该交规万取拉格望觉术` +
	`领共确传师观清今切院让识候带导争运失败错误异常警告启动停止连接超库服务器网络用户密码登录支付订单收银店打印商存` +
	`易退款会员配置系统文件版本更检查成功执重试请响应返未找缺少硬盘读写线程任务初始化完毕上传下载更新同步价格折扣积` +
	`券卡扫微支宝终端柜台班现零售仓货号码条纸钱箱屏幕键盘标签称` +
	`這個們來為國說時會對過發後裡種經麼學現當沒動還進樣開從實軍無與長機關點業將兩間問並應戰頭體見產給門東聲員論處義` +
	`幾認條係氣題爾別變總電數報結務場計資許統區隊決書則聽卻達強難權設記類據邊張該規萬術領確傳師觀讓識帶導爭運敗錯誤` +
	`異啟動連線逾時訂單銀庫執試請響應讀寫錄網絡碼戶檔案設定伺服器收銀機門市發票貨櫃檯現價積點載遠端斷線重新系統備份`

// punctuation lists the marks of Chinese text and its full-width signs.
const punctuation = "，。、；：？！“”‘’（）《》【】「」『』—…·￥％＋－＝／～　"

var commonSet = sync.OnceValue(func() map[rune]bool { return setOf(common) })

var punctuationSet = sync.OnceValue(func() map[rune]bool { return setOf(punctuation) })

func setOf(text string) map[rune]bool {
	set := make(map[rune]bool, len(text)/3)
	for _, r := range text {
		set[r] = true
	}
	return set
}

func isCommon(r rune) bool { return r >= utf8.RuneSelf && commonSet()[r] }

func isPunctuation(r rune) bool { return r >= utf8.RuneSelf && punctuationSet()[r] }
